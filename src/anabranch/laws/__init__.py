"""The laws that allow a parallel fold: a search for counterexamples, proofs, and synthesis of forks."""

from anabranch.laws.laws import LAWS, Law
from anabranch.laws.proving.proof import Proof, attach, prove
from anabranch.laws.reports import Counterexample, LawResult, RaisingFunction, Report
from anabranch.laws.searching.search import check
from anabranch.laws.synthesis.synthesis import Synthesis, synthesise

__all__ = [
    "LAWS",
    "Counterexample",
    "Law",
    "LawResult",
    "Proof",
    "RaisingFunction",
    "Report",
    "Synthesis",
    "attach",
    "check",
    "prove",
    "synthesise",
]
