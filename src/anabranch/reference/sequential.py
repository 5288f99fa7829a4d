"""The sequential fold: what every program means. Part of the trusted kernel.

Every other runtime is right if and only if it says what this one says.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.sources import Late, Rejected, Source, follow, read_sources
from anabranch.eventtime.timers import TimerError, Timetable, is_timer
from anabranch.model.events import FOREVER, Event, Item
from anabranch.model.order import OrderKey, sort_events
from anabranch.model.program import Program
from anabranch.model.step import describe_failure


class Output(NamedTuple):
    """Something a program said, the event on which it said it, and as which of several."""

    value: Any
    event: Event
    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody wants here
    key: OrderKey

    @property
    def id(self) -> tuple[OrderKey, int]:
        """Return what tells this output from every other one of the run, on any runtime."""
        return (self.key, self.index)


class Answer(NamedTuple):
    """What became of an input: the outputs in order, the state, and an account of every event."""

    outputs: list[Output]
    state: Any
    ledger: Ledger
    late: list[Late]
    rejected: list[Rejected]
    pending: list[Event]
    frontiers: dict[str, int]

    @property
    def values(self) -> list[Any]:
        """Return the outputs without their circumstances."""
        return [output.value for output in self.outputs]

    @property
    def frontier(self) -> int:
        """Return how far time has come: the least of the sources' frontiers."""
        return min(self.frontiers.values(), default=FOREVER)


def run(program: Program, items: Iterable[Item], sources: Iterable[Source] = ()) -> Answer:
    """Fold the stable events of an input in order; keep the rest, and account for everything.

    The answer is a function of what each source brought, in its own sequence. An input that has
    ended says so with heartbeats at FOREVER (`eventtime.sources.end_sources`).
    """
    known, brought = read_sources(items, sources)
    followed = {
        name: follow(known[name], brought[name], program.inputs) for name in sorted(brought)
    }
    good = [event for source in followed.values() for event in source.good]
    late = [event for source in followed.values() for event in source.late]
    rejected = [item for source in followed.values() for item in source.rejected]
    counted = len(good) + len(late) + len(rejected)
    frontiers = {name: source.frontier for name, source in followed.items()}
    frontier = min(frontiers.values(), default=FOREVER)
    stable = sort_events(program.ranks, (event for event in good if event.time <= frontier))
    pending = [event for event in good if event.time > frontier]
    state, outputs, faults = fold(program, stable, frontier)
    rejected += faults
    # A timer is no input; only one that fails is counted, so that the account shows it.
    failed = sum(is_timer(program, fault.item) for fault in faults)
    counted += failed
    processed = len(stable) - (len(faults) - failed)
    ledger = Ledger(counted, processed, len(late), len(rejected), 0, len(pending))
    return Answer(outputs, state, ledger.check(program.name), late, rejected, pending, frontiers)


def fold(
    program: Program, stable: Iterable[tuple[OrderKey, Event]], frontier: int = FOREVER
) -> tuple[Any, list[Output], list[Rejected]]:
    """Fold events that are already in order, from the program's start, and the timers they set."""
    timetable = Timetable(program, program.init, stable, frontier)
    outputs: list[Output] = []
    faults: list[Rejected] = []
    for key, event in timetable:
        try:
            said = timetable.step(event)
        except TimerError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a user's function raises
            faults.append(Rejected(event, describe_failure(event, error)))
            timetable.set_aside(event)
            continue
        outputs += [Output(value, event, i, key) for i, value in enumerate(said)]
    return timetable.state, outputs, faults
