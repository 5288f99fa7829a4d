"""`anabranch state`: state in queries, exports and lookups, compared with a newer program."""
