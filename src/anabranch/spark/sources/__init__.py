"""The Spark side of sources: the data source that reads files, frames, clocks."""
