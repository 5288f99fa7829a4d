"""The translation of a user's functions into the source of a loop over columns."""
