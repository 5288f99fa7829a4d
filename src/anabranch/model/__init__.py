"""The language: events, dependence, programs. Standard library only."""
