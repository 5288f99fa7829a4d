"""The stateful operators that Spark runs."""
