"""Columns all the way: events that lie in columns are read, sent, kept and folded as columns."""
