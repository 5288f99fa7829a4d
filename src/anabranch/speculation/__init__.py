"""Speculation: say at once, take back what an event out of order proves wrong, settle at a barrier."""
