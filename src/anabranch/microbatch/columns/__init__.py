"""Columns in memory: tables of events, strings, slices of windows, and the shards they go to."""
