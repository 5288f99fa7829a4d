"""The sequential fold, which defines what a program means. Part of the trusted kernel.

Every other runtime is correct if and only if its outputs are those of this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from anabranch.eventtime.channel_progress import Standing, check_goes_on, put_down, take_up
from anabranch.eventtime.channels import Channel, Late, Rejected, check_units, follow, read_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.timers import Timetable, find_set, is_timer
from anabranch.model.events import FOREVER, Event, Item
from anabranch.model.failures import Failed, attempt
from anabranch.model.order import OrderKey, sort_events
from anabranch.model.program import Program
from anabranch.plan.foldable_leaves import join_deltas
from anabranch.savepoints.snapshot import Snapshot


class Output(NamedTuple):
    """An output of a program, the event that caused it, and its index among the outputs of that event."""

    value: Any
    event: Event
    index: int  # type: ignore[assignment]  # hides tuple.index, which is not needed here
    key: OrderKey

    @property
    def id(self) -> tuple[OrderKey, int]:
        """Return an id that is unique among the outputs of a run, and the same on any runtime."""
        return (self.key, self.index)


class Answer(NamedTuple):
    """The result of a run: the outputs in order, the state, and the ledger of all events."""

    outputs: list[Output]
    state: Any
    ledger: Ledger
    late: list[Late]
    rejected: list[Rejected]
    pending: list[Event]
    watermarks: dict[str, int]
    standings: Mapping[str, Standing] = MappingProxyType({})

    @property
    def values(self) -> list[Any]:
        """Return the values of the outputs, without their events."""
        return [output.value for output in self.outputs]

    @property
    def watermark(self) -> int:
        """Return the program's watermark: the least of the channels' watermarks."""
        return min(self.watermarks.values(), default=FOREVER)

    def _repr_html_(self) -> str:
        from anabranch.html_tables import MOST_ROWS, show_line, show_table

        rows = [(o.event.time, repr(o.event.data), repr(o.value)) for o in self.outputs[:MOST_ROWS]]
        count = show_line("outputs", f"{len(self.outputs):,}")
        table = show_table(("time", "event", "value"), rows)
        return show_line("ledger", self.ledger) + count + table

    def snapshot(self) -> Snapshot:
        """Return the snapshot from which a later run can continue."""
        return Snapshot(
            self.state, {}, tuple(self.pending), dict(self.standings), self.ledger, None
        )


def run(
    program: Program,
    items: Iterable[Item],
    channels: Iterable[Channel] = (),
    start: Snapshot | None = None,
) -> Answer:
    """Fold the stable events of an input in order, and return the answer; later events stay pending.

    The answer is a function of the items of each channel, in the channel's own sequence. An input that
    has ended has heartbeats at FOREVER (`eventtime.channels.end_channels`).

    With `start`, the run continues from the snapshot of an earlier run. Its outputs and lists contain
    what is new; its state and its ledger cover all events of both runs.
    """
    begun = Snapshot(program.init) if start is None else start
    known, brought, strangers = read_channels(items, channels)
    check_units(program, known.values())
    for name in begun.standings:
        known.setdefault(name, Channel(name))
        brought.setdefault(name, [])
    names = sorted(brought)
    # A channel that is added later starts at the current watermark.
    fresh = Standing(begun.floor, joined=begun.floor if begun.standings else None)
    before = {name: begun.standings.get(name, fresh) for name in names}
    for name in names:
        check_goes_on(name, before[name], brought[name])
    watches = {name: take_up(known[name], before[name]) for name in names}
    followed = {
        name: follow(known[name], brought[name], program.inputs, watches[name]) for name in names
    }
    standings = {name: put_down(before[name], watches[name]) for name in names}
    waiting: dict[str, list[Event]] = {name: [] for name in names}
    for event in begun.pending:
        waiting[event.channel].append(event)
    good = [event for name in names for event in (*waiting[name], *followed[name].good)]
    late = [event for channel in followed.values() for event in channel.late]
    rejected = [*strangers, *(item for one in followed.values() for item in one.rejected)]
    counted = len(good) - len(begun.pending) + len(late) + len(rejected)
    watermarks = {name: standing.watermark for name, standing in standings.items()}
    watermark = min(watermarks.values(), default=FOREVER)
    stable = sort_events(program.ranks, (event for event in good if event.time <= watermark))
    pending = [event for event in good if event.time > watermark]
    state, outputs, faults = fold(program, stable, watermark, start)
    rejected += faults
    # A timer is not an input; only one that fails is counted, so that the ledger shows it.
    failed = sum(is_timer(program, fault.item) for fault in faults)
    counted += failed
    processed = len(stable) - (len(faults) - failed)
    old = begun.ledger
    ledger = Ledger(
        old.input + counted,
        old.processed + processed,
        old.late + len(late),
        old.rejected + len(rejected),
        old.shed,
        len(pending),
    ).check(program.name)
    return Answer(outputs, state, ledger, late, rejected, pending, watermarks, standings)


def fold(
    program: Program,
    stable: Iterable[tuple[OrderKey, Event]],
    watermark: int = FOREVER,
    start: Snapshot | None = None,
) -> tuple[Any, list[Output], list[Rejected]]:
    """Fold events that are in order, and the timers they set, from the initial or a given state."""
    state, wakes = program.init, []
    if start is not None:
        state = join_deltas(program, start.state, start.deltas)
        # Timers that were set before and that the watermark has reached now.
        wakes = [wake for wake in find_set(program, state, start.floor) if wake.time <= watermark]
    timetable = Timetable(program, state, stable, watermark, wakes)
    outputs: list[Output] = []
    faults: list[Rejected] = []
    for key, event in timetable:
        emitted = attempt(timetable.step, event)
        if isinstance(emitted, Failed):
            faults.append(Rejected(event, emitted.describe(event)))
            timetable.set_aside(event)
            continue
        outputs += [Output(value, event, i, key) for i, value in enumerate(emitted)]
    return timetable.state, outputs, faults
