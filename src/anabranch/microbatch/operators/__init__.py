"""Shards and roots as operators from the rows of a group to output rows."""
