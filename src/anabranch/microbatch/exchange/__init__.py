"""What crosses a shuffle: envelopes, deltas, result rows."""
