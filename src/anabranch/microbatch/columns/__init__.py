"""Columns in memory: tables of events, strings, slices of windows, and their routing to shards."""
