"""Speculative mode: pending segments, and the retractions that follow a change."""
