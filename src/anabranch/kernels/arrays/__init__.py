"""Passes over arrays: order, indexes, look-ups, sliding windows."""
