"""Every valid plan of a small program, for exhaustive search and for tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from anabranch.model.program import Program
from anabranch.model.slices import Slice
from anabranch.plan.graph import connect
from anabranch.plan.tree import Plan, PlanNode


def enumerate_plans(program: Program, slices: Sequence[Slice]) -> Iterator[Plan]:
    """Yield every valid plan over these slices, up to the order of equal sides.

    At each node some slices stay; the others must fall into two groups that do not depend on
    each other. The number of plans grows faster than exponentially: this is for small programs.
    """
    distinct = tuple(dict.fromkeys(slices))
    for number, root in enumerate(_enumerate(program, distinct, program.initial.name)):
        yield Plan(root, f"plan {number}")


def _enumerate(program: Program, slices: tuple[Slice, ...], state: str) -> Iterator[PlanNode]:
    kind = program.state_type(state)
    if not kind.handles(part.event_type for part in slices):
        return
    yield PlanNode(*slices, state=state)
    forks = [fork for fork in program.forks if fork.parent == state]
    for size in range(len(slices) - 1):
        for own in combinations(slices, size):
            rest = [part for part in slices if part not in own]
            for left, right in split(program, rest):
                for fork in forks:
                    pairs = [(left, right)]
                    if fork.left != fork.right:
                        pairs.append((right, left))
                    for a, b in pairs:
                        for x in _enumerate(program, a, fork.left):
                            for y in _enumerate(program, b, fork.right):
                                yield PlanNode(*own, children=(x, y), state=state)


def split(
    program: Program, slices: Sequence[Slice]
) -> Iterator[tuple[tuple[Slice, ...], tuple[Slice, ...]]]:
    """Yield each split of slices into two independent groups; the first slice stays on the left."""
    groups = connect(program.dependence, slices)
    first, others = groups[0], groups[1:]
    for size in range(len(others)):
        for more in combinations(others, size):
            left = {n for group in (first, *more) for n in group}
            yield (
                tuple(part for n, part in enumerate(slices) if n in left),
                tuple(part for n, part in enumerate(slices) if n not in left),
            )
