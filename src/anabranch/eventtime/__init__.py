"""Event time: frontiers, lateness, and the ledger of what became of every event."""
