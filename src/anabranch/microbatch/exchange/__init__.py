"""The data that a shuffle transfers: envelopes, deltas, result rows."""
