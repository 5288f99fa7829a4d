"""Ready-made states, most of them with fork, join and zero, and changes for state evolution."""

from anabranch.state.collections import MapOf, Replicated, SetOf, Struct, TopK
from anabranch.state.combined import Several
from anabranch.state.evolution.changes import Default, Drop, Rekey, Rename, Reshape, Retype
from anabranch.state.exact import ExactMean, ExactSum, ExactVariance
from anabranch.state.holistic import Distinct, Median, Mode, Quantile
from anabranch.state.limits import Limited
from anabranch.state.lists import Bag, ListOf, SplitList, UnionList
from anabranch.state.numbers import Count, Max, Mean, Min, Sum
from anabranch.state.per_channel import PerChannel
from anabranch.state.sharing import Shared
from anabranch.state.sketches import ApproxDistinct, ApproxQuantile
from anabranch.state.values import Dictionary, Latest, Value

__all__ = [
    "ApproxDistinct",
    "ApproxQuantile",
    "Bag",
    "Count",
    "Default",
    "Dictionary",
    "Distinct",
    "Drop",
    "ExactMean",
    "ExactSum",
    "ExactVariance",
    "Latest",
    "Limited",
    "ListOf",
    "MapOf",
    "Max",
    "Mean",
    "Median",
    "Min",
    "Mode",
    "PerChannel",
    "Quantile",
    "Rekey",
    "Rename",
    "Replicated",
    "Reshape",
    "Retype",
    "SetOf",
    "Several",
    "Shared",
    "SplitList",
    "Struct",
    "Sum",
    "TopK",
    "UnionList",
    "Value",
]
