"""Queries: what builds programs, so that nobody has to write them out."""
