"""Folds of stable events into states, deltas and result rows."""
