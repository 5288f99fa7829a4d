"""Rewrite rules of plans, one per file, each a pure function; `RULES` is the order of application.

A rule may propose any valid plan. The cost alone decides which one is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.model.program import Program
from anabranch.plan.pricing.cost import Prices
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.rules.balance import balance
from anabranch.plan.rules.collapse import collapse
from anabranch.plan.tree import Plan

Rule = Callable[[Program, Plan, Rates, Prices], Iterator[Plan]]

RULES: tuple[Rule, ...] = (balance, collapse)
