"""The Spark side of channels: the data source that reads files, frames, clocks."""
