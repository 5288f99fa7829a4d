# It runs in an environment of its own, and can't be imported in this one.
collect_ignore = ["oracle.py"]
