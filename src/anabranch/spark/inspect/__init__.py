"""The state of a query: as frames, by SQL, as a history of keys, over HTTP and as Parquet."""
