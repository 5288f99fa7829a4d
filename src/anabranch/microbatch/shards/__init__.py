"""A batch of one shard: row shard, columnar shard, root, deferred outputs."""
