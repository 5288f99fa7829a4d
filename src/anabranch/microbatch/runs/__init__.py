"""What every runtime needs for a run: its options, its job, its batches of files, and published batches."""
