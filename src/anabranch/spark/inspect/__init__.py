"""The state of a query as frames, SQL, history, HTTP and Parquet."""
