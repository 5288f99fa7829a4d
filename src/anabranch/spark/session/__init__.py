"""The Spark session: Java, settings, signals, partitions."""
