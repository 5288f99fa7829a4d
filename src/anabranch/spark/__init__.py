"""The Spark runtime. The only package that imports PySpark."""
