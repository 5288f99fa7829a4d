"""Speculation: outputs at once, retractions after events out of order, and settled outputs at a barrier."""
