"""Restoring a savepoint: its division among shards, and the first batch of a shard."""
