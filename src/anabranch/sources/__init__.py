"""Sources: where events come from. Files and their rows; nothing here needs Spark."""
