"""From the functions of a user to the source of a loop over columns."""
