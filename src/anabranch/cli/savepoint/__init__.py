"""`anabranch savepoint`: savepoints of embedded runs and of runs on Spark."""
