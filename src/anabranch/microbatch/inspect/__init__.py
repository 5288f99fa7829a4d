"""State as tables and look-ups, read from what stores hold."""
