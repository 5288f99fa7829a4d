"""One batch of a shard: row shard, columnar shard, root, deferred outputs."""
