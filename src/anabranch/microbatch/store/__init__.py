"""Where a shard keeps its state between batches: pages behind one interface."""
