"""The state of a shard between batches: pages behind one interface."""
