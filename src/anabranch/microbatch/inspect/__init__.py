"""State as tables and look-ups of keys, read from the values of stores."""
