"""State of an older program, carried into a newer one."""
