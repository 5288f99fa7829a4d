"""A program over shards, one batch after the other. Knows no runtime and no Spark."""
