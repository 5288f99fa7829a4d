"""Reading files row by row, with one rule for every runtime; nothing here needs Spark."""
