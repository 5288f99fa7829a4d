"""Migration of the state of an older program to a newer one."""
