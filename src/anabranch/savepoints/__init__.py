"""Savepoints: a run between two events, in a folder that any tool reads and any shape of run goes on from."""
