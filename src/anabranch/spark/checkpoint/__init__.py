"""Checkpoints: locks, integrity, and the files that Spark keeps in them."""
