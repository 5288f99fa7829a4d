"""Balance: turn a ladder of workers that own nothing into a tree as low as can be."""

from __future__ import annotations

from collections.abc import Iterator

from anabranch.model.program import Program
from anabranch.plan.pricing.cost import PRICES, Prices
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.tree import Plan, Worker, pair_up


def balance(program: Program, plan: Plan, rates: Rates, prices: Prices = PRICES) -> Iterator[Plan]:
    """Propose the plan with every ladder balanced.

    The workers that hang from a ladder are independent of each other, so they may be forked apart
    in any shape, as long as all states are of one type.
    """
    root = _balance(plan.root)
    if root != plan.root:
        yield Plan(root, plan.name)


def _balance(worker: Worker) -> Worker:
    if not worker.children:
        return worker
    hanging = [_balance(branch) for branch in _collect(worker)]
    children = pair_up(hanging, worker.state, worker.machine)
    return Worker(*worker.slices, children=children, state=worker.state, machine=worker.machine)


def _collect(worker: Worker) -> list[Worker]:
    """Return what hangs from the rungs below a worker."""
    alike = all(child.state == worker.state for child in worker.children)
    found: list[Worker] = []
    for child in worker.children:
        rung = alike and child.children and not len(child.slices)
        if rung and all(below.state == worker.state for below in child.children):
            found += _collect(child)
        else:
            found.append(child)
    return found
