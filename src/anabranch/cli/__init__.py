"""The command line: one module per verb, put together in `main`."""
