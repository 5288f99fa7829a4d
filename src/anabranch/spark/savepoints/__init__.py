"""Savepoints of checkpoints: create, restore, rescale."""
