"""Ready-made states, each with its fork, join and zero, so that most programs write none."""

from anabranch.state.collections import MapOf, Replicated, SetOf, Struct, TopK
from anabranch.state.exact import ExactMean, ExactSum, ExactVariance
from anabranch.state.numbers import Count, Max, Min, Sum

__all__ = [
    "Count",
    "ExactMean",
    "ExactSum",
    "ExactVariance",
    "MapOf",
    "Max",
    "Min",
    "Replicated",
    "SetOf",
    "Struct",
    "Sum",
    "TopK",
]
