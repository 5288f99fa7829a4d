"""Ready-made states, each with its fork, join and zero, so that most programs write none."""

from anabranch.state.collections import MapOf, Replicated, SetOf, Struct, TopK
from anabranch.state.exact import ExactMean, ExactSum, ExactVariance
from anabranch.state.holistic import Distinct, Median, Mode, Quantile
from anabranch.state.numbers import Count, Max, Mean, Min, Sum
from anabranch.state.several import Several
from anabranch.state.sharing import Shared
from anabranch.state.sketches import ApproxDistinct, ApproxQuantile

__all__ = [
    "ApproxDistinct",
    "ApproxQuantile",
    "Count",
    "Distinct",
    "ExactMean",
    "ExactSum",
    "ExactVariance",
    "MapOf",
    "Max",
    "Mean",
    "Median",
    "Min",
    "Mode",
    "Quantile",
    "Replicated",
    "SetOf",
    "Several",
    "Shared",
    "Struct",
    "Sum",
    "TopK",
]
