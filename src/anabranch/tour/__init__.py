"""The tour: a program, a stream on Spark, a crash in the middle, and the answer held against the fold.

`python -m anabranch.tour` takes about a minute. `--no-spark` leaves Spark out, `--keep FOLDER` keeps
what was read and published.
"""
