"""A savepoint, split over shards and taken up by them."""
