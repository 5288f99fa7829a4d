"""The laws that let a fold be cut apart, and the search for a case that breaks one."""

from anabranch.laws.laws import LAWS, Law
from anabranch.laws.reports import Counterexample, Report, Result
from anabranch.laws.search import check

__all__ = ["LAWS", "Counterexample", "Law", "Report", "Result", "check"]
