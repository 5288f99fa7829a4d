"""Queries: what builds programs, so that nobody has to write them out."""

from anabranch.query.windows import Missed, Result, aggregate

__all__ = ["Missed", "Result", "aggregate"]
