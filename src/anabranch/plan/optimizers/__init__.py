"""Optimizers: one file each, pure functions from (program, rates, machines) to a plan.

The choice never changes the results, only the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from anabranch.model.program import Program
from anabranch.plan.optimizers.best import plan_best
from anabranch.plan.optimizers.greedy import plan_greedily
from anabranch.plan.optimizers.hybrid import plan_hybrid
from anabranch.plan.optimizers.keyed import plan_by_key
from anabranch.plan.optimizers.single_node import plan_sequentially
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.tree import Plan

Optimizer = Callable[[Program, Rates, Sequence[str]], Plan]

OPTIMIZERS: dict[str, Optimizer] = {
    "best": plan_best,
    "greedy": plan_greedily,
    "hybrid": plan_hybrid,
    "keyed": plan_by_key,
    "sequential": plan_sequentially,
}
