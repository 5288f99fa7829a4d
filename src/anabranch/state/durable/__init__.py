"""Durable forms of values: bytes and columns."""
