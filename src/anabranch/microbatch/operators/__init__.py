"""Shards and roots as operators: the rows of a group in, rows out."""
