"""Savepoints of any runtime: what is written, what a restore checks, and the envelopes that seed its shards."""
