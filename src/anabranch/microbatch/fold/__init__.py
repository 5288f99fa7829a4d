"""From stable events to states, deltas and output rows."""
