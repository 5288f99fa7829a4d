"""Sinks and result frames, and the progress of a query."""
