"""Compare two streams up to a dependence relation, while they run."""

from anabranch.equivalence.difference import Arrival, Difference, Side
from anabranch.equivalence.matching import Matcher, compare, depends_fully, depends_never
from anabranch.equivalence.poset import GLOBAL

__all__ = [
    "GLOBAL",
    "Arrival",
    "Difference",
    "Matcher",
    "Side",
    "compare",
    "depends_fully",
    "depends_never",
]
