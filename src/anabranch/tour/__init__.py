"""The tour: millions of events on local Spark, a hot key, a crash, and the answer checked row by row.

`python -m anabranch.tour` takes about a minute. `--no-spark` runs without Spark, `--keep FOLDER` keeps
the input and the published rows.
"""
