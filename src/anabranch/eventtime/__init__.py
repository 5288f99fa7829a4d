"""Event time: watermarks, lateness, windows and triggers, and the ledger of every event."""
