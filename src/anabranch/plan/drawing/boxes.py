"""Figures: the boxes of a drawn plan, where subtrees that look alike are one stacked figure.

A plan of a hundred nodes is drawn as the ten that differ. Only nodes without slices are left out:
they join the nodes that are drawn as a stack.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from anabranch.plan.pricing.duties import Duty, name_rate, name_slices
from anabranch.plan.pricing.rates import Load
from anabranch.plan.tree import PlanNode

MOST_COLUMNS = 8
"""The most leaves side by side that can be read on a slide."""


@dataclass(frozen=True)
class Figure:
    """One or more nodes with the same role, and the figures below them.

    `hidden` are the nodes that only join these into one.
    """

    duties: tuple[Duty, ...]
    children: tuple[Figure, ...] = ()
    hidden: tuple[Duty, ...] = ()

    @property
    def node(self) -> PlanNode:
        """Return the first of the nodes."""
        return self.duties[0].node

    @property
    def count(self) -> int:
        """Return the number of nodes that are drawn as one."""
        return len(self.duties)

    @property
    def bare(self) -> bool:
        """Return whether these nodes only join and fork."""
        return not len(self.node.slices)

    @property
    def rate(self) -> float:
        """Return the events per second of all of them together."""
        return sum(duty.rate for duty in self.duties)

    @property
    def busy(self) -> float:
        """Return the busiest one's share of time."""
        return max(duty.busy for duty in self.duties)

    @property
    def machines(self) -> tuple[str, ...]:
        """Return the machines of the nodes, in order."""
        found = (duty.node.machine for duty in self.duties)
        return tuple(dict.fromkeys(machine for machine in found if machine))

    @property
    def paths(self) -> str:
        """Return the paths of all nodes in this figure, hidden ones too."""
        return " ".join(duty.path for duty in (*self.duties, *self.hidden))

    def walk(self) -> Iterator[Figure]:
        """Yield this figure and all below."""
        yield self
        for child in self.children:
            yield from child.walk()

    def columns(self) -> int:
        """Return the number of leaves side by side."""
        return sum(child.columns() for child in self.children) or 1

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines in the box: event types, and how they are cut."""
        if self.count == 1:
            return name_slices(self.node.slices)
        named: dict[str, list[str]] = {}
        for duty in self.duties:
            for event_type, cut in name_slices(duty.node.slices):
                named.setdefault(event_type, []).append(cut)
        return [(event_type, _name_range(cuts)) for event_type, cuts in named.items()]

    def describe_rate(self) -> str:
        """Return the events per second, each and together."""
        if self.count == 1:
            return name_rate(self.rate)
        rates = [duty.rate for duty in self.duties]
        alike = max(rates) - min(rates) <= 0.01 * max(rates)
        return f"{name_rate(rates[0])} each" if alike else f"{name_rate(self.rate)} in all"


def _name_range(cuts: list[str]) -> str:
    """Return one name for many cuts: their common parts, and differing parts from first to last.

    >>> _name_range(["key 1, from a", "key 2, from a", "key 3, from a"])
    'key 1 … 3, from a'
    """
    words = [cut.split(", ") for cut in dict.fromkeys(cuts)]
    if len({len(row) for row in words}) > 1:
        return f"{', '.join(words[0])} …"
    return ", ".join(_name_run(list(dict.fromkeys(column))) for column in zip(*words, strict=True))


def _name_run(values: list[str]) -> str:
    first, last = values[0], values[-1]
    if len(values) == 1:
        return first
    name = first.rpartition(" ")[0] + " "
    bare = last.removeprefix(name) if all(value.startswith(name) for value in values) else last
    return f"{first}, {bare}" if len(values) == 2 else f"{first} … {bare}"


def build_figures(duties: Mapping[str, Duty], path: str = "0") -> Figure:
    """Return the figures of a plan, one per node, then stacked until they are readable."""
    figure = _build(duties, path)
    while figure.columns() > MOST_COLUMNS:
        heights = [_height(f) for f in figure.walk() if _can_stack(f)]
        if not heights:
            break
        figure = _stack(figure, min(heights))
    return figure


def _build(duties: Mapping[str, Duty], path: str) -> Figure:
    sides = range(len(duties[path].node.children))
    return Figure((duties[path],), tuple(_build(duties, f"{path}.{side}") for side in sides))


def _can_stack(figure: Figure) -> bool:
    if not figure.bare or not figure.children:
        return False
    left, right = figure.children
    return _looks(left) == _looks(right)


def _looks(figure: Figure) -> object:
    """Return the properties that two figures drawn as one must share: all but the values of their cuts."""
    cuts = frozenset(
        (part.event_type, tuple(name for name, _ in part.where), part.channel is None)
        for part in figure.node.slices
    )
    return figure.node.state, cuts, tuple(_looks(child) for child in figure.children)


def _stack(figure: Figure, height: int) -> Figure:
    """Stack all figures of one height that can be stacked, so that a drawing stays even."""
    if _height(figure) == height and _can_stack(figure):
        left, right = figure.children
        both = _merge(left, right)
        return Figure(both.duties, both.children, (*both.hidden, *figure.duties, *figure.hidden))
    children = tuple(_stack(child, height) for child in figure.children)
    return Figure(figure.duties, children, figure.hidden)


def _merge(left: Figure, right: Figure) -> Figure:
    pairs = zip(left.children, right.children, strict=True)
    below = tuple(_merge(a, b) for a, b in pairs)
    return Figure(left.duties + right.duties, below, left.hidden + right.hidden)


def _height(figure: Figure) -> int:
    return 1 + max((_height(child) for child in figure.children), default=0)


@dataclass(frozen=True)
class IncomingArrow:
    """An arrow into a node: the slices that arrive, their machine, and their rate."""

    name: str
    rate: float
    machine: str


def list_arrivals(figure: Figure, most: int) -> list[IncomingArrow]:
    """Return the arrows into a figure, the most frequent first if there is not room for all."""
    loads = [load for duty in figure.duties for load in duty.loads]
    if figure.count > 1:
        return [_sum_up(loads, "")] if loads else []
    channels = [load.slice.channel for load in loads]
    rest: list[Load] = []
    if len(loads) > most:
        loads.sort(key=lambda load: -load.rate)
        loads, rest = loads[: most - 1], loads[most - 1 :]
    arrivals = [
        _name_arrival(load, with_type=channels.count(load.slice.channel) > 1) for load in loads
    ]
    return [*arrivals, _sum_up(rest, "+")] if rest else arrivals


def _name_arrival(load: Load, *, with_type: bool) -> IncomingArrow:
    name = load.slice.channel or load.slice.event_type.__name__
    if with_type and load.slice.channel:
        name = f"{load.slice.event_type.__name__} {load.slice.channel}"
    return IncomingArrow(name, load.rate, load.machine)


def _sum_up(loads: list[Load], sign: str) -> IncomingArrow:
    machines = {load.machine for load in loads}
    machine = machines.pop() if len(machines) == 1 else ""
    return IncomingArrow(f"{sign}{len(loads)} slices", sum(load.rate for load in loads), machine)
