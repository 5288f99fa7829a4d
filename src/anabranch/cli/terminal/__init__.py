"""The terminal of a command: printing, JSON of failures, signals."""
