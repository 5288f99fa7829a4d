"""Duties: the work of each node of a plan at given rates, and its names for users."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.model.events import LANE
from anabranch.model.program import Program
from anabranch.model.slices import Equals, Shard, Slice
from anabranch.plan.pricing.cost import PRICES, Prices, assign
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.tree import Plan, PlanNode


@dataclass(frozen=True)
class Duty:
    """The work of one node: the events it handles, how often it joins and forks, how busy it is.

    `syncs` is how often per second its children's states are joined here and forked again;
    `parent_syncs` is how often per second its own state is sent to its parent and back.
    """

    path: str
    node: PlanNode
    loads: tuple[Load, ...]
    parent_syncs: float
    syncs: float
    busy: float
    synchronises: bool

    @property
    def rate(self) -> float:
        """Return the events per second of this node."""
        return sum(load.rate for load in self.loads)

    @property
    def depth(self) -> int:
        """Return the number of nodes above this one."""
        return self.path.count(".")


def list_duties(
    program: Program, plan: Plan, rates: Rates, prices: Prices = PRICES
) -> dict[str, Duty]:
    """Return the duty of every node, by path, from the root down."""
    assigned = assign(program, plan, rates)
    duties: dict[str, Duty] = {}
    for path, node in plan.root.walk():
        above = duties.get(path.rpartition(".")[0])
        parent_syncs = above.syncs if above is not None else 0.0
        own = sum(load.rate for load in assigned[path])
        syncs = parent_syncs + own if node.children else 0.0
        joins = syncs if node.children else parent_syncs
        busy = own * prices.seconds_per_event + joins * prices.seconds_per_join
        # Any event type above others requires a join, whether a marker or only the rarer event type.
        waits = bool(node.children) and len(node.slices) > 0
        duties[path] = Duty(path, node, tuple(assigned[path]), parent_syncs, syncs, busy, waits)
    return duties


def name_slice(part: Slice) -> tuple[str, str]:
    """Return a slice as text: its event type, and how it is cut.

    >>> from typing import NamedTuple
    >>> from anabranch.model.slices import take
    >>> Inc = NamedTuple("Inc", [("time", int), ("key", int)])
    >>> name_slice(take(Inc, key=2, channel="a"))
    ('Inc', 'key 2, from a')
    >>> name_slice(take(Inc, lane=Shard(0, 4)))
    ('Inc', 'lane 0 of 4')
    """
    words = [_name_choice(name, choice) for name, choice in part.where]
    if part.channel is not None:
        words.append(f"from {part.channel}")
    return part.event_type.__name__, ", ".join(words)


def _name_choice(name: str, choice: Equals | Shard) -> str:
    if isinstance(choice, Equals):
        return f"{name.lstrip('@')} {choice.value}"
    kind = "lane" if name == LANE else f"{name} shard"
    rest = f" but {', '.join(sorted(map(str, choice.but)))}" if choice.but else ""
    return f"{kind} {choice.index} of {choice.count}{rest}"


def name_slices(parts: Iterable[Slice]) -> list[tuple[str, str]]:
    """Return slices as text, those that differ only by channel on one line."""
    families: dict[tuple[str, str], list[str]] = {}
    for part in parts:
        event_type, cut = name_slice(Slice(part.event_type, part.where))
        families.setdefault((event_type, cut), []).append(part.channel or "")
    named: list[tuple[str, str]] = []
    for (event_type, cut), channels in families.items():
        known = [channel for channel in channels if channel]
        origin = "from " + (", ".join(known) if len(known) < 3 else f"{len(known)} channels")
        named.append(
            (event_type, ", ".join(word for word in (cut, origin if known else "") if word))
        )
    return named


def name_rate(rate: float) -> str:
    """Return events per second as text short enough for a box.

    >>> [name_rate(rate) for rate in (0, 0.0042, 0.5, 15, 1115, 25_000, 2_400_000)]
    ['0/s', '0.0042/s', '0.5/s', '15/s', '1,115/s', '25k/s', '2.4M/s']
    """
    for least, size, prefix in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if rate >= least:
            scaled = rate / size
            return f"{scaled:,.0f}{prefix}/s" if scaled >= 100 else f"{scaled:.3g}{prefix}/s"
    return f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"


def name_share(share: float) -> str:
    """Return a share of a node's time as text.

    >>> [name_share(share) for share in (0, 0.0004, 0.051, 0.6, 3)]
    ['idle', '<0.1%', '5.1%', '60%', '300%']
    """
    if share == 0:
        return "idle"
    if share < 0.001:
        return "<0.1%"
    return f"{share:.1%}" if share < 0.0995 else f"{share:.0%}"


def name_duration(seconds: float) -> str:
    """Return a duration as text with a suitable unit.

    >>> [name_duration(s) for s in (3.0, 0.3003, 0.00064, 0.0000014)]
    ['3 s', '300 ms', '640 µs', '1.4 µs']
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"


def count_nodes(plan: Plan) -> str:
    """Return the number of nodes of a plan, and of its machines, as text.

    >>> from typing import NamedTuple
    >>> Value = NamedTuple("Value", [("time", int)])
    >>> count_nodes(Plan(PlanNode(Value)))
    '1 node'
    """
    nodes = plan.nodes().values()
    machines = {node.machine for node in nodes} - {None}
    words = f"{len(nodes)} node{'s' if len(nodes) > 1 else ''}"
    return f"{words} on {len(machines)} machines" if len(machines) > 1 else words
