"""Speculative mode without Spark: outputs at once, retractions, and a barrier that releases settled outputs.

For any order of arrival, the barrier releases the outputs of `reference/sequential.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice, repeat
from typing import NamedTuple

from anabranch.eventtime.channel_progress import Standing, put_down
from anabranch.eventtime.channels import Channel, Late, Rejected, Watch, check_units, read_channels
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.timers import is_timer
from anabranch.model.events import FOREVER, Event, Item
from anabranch.model.program import Program
from anabranch.plan.foldable_leaves import find_leaf_types, join_deltas
from anabranch.reference.sequential import Answer, Output
from anabranch.speculation.barrier import Barrier, hold_back
from anabranch.speculation.event_rules import Leaves
from anabranch.speculation.output_changes import Amount, OutputChange, measure
from anabranch.speculation.programs import Speculation


class SpeculativeStep(NamedTuple):
    """The output changes when some items arrived, and the watermark after them."""

    emitted: list[OutputChange]
    watermark: int


class SpeculativeResult(NamedTuple):
    """All output changes, step by step, and the answer of the settled events."""

    moments: list[SpeculativeStep]
    answer: Answer

    @property
    def rows(self) -> list[OutputChange]:
        """Return all output changes, in the order in which they were emitted."""
        return [row for moment in self.moments for row in moment.emitted]

    @property
    def amount(self) -> Amount:
        """Return the counts of emitted and of still valid outputs."""
        return measure(self.rows)


class SpeculativeRun:
    """A speculative run, item by item. Its state is `speculation` and `barrier`."""

    def __init__(
        self, program: Program, channels: Iterable[Channel], leaves: Leaves | None = None
    ) -> None:
        self.program = program
        self.speculation = Speculation(program, find_leaves(program) if leaves is None else leaves)
        self.barrier = Barrier()
        self._watches = {channel.name: Watch(channel) for channel in channels}
        self._late: dict[str, list[Late]] = {name: [] for name in sorted(self._watches)}
        self._rejected: dict[str, list[Rejected]] = {name: [] for name in sorted(self._watches)}
        self._strangers: list[Rejected] = []
        self._faults: list[Rejected] = []
        self._good = self._processed = 0
        self._outputs: list[Output] = []

    def take(self, items: Iterable[Item]) -> SpeculativeStep:
        """Process items, each in its channel's own sequence; return the output changes."""
        good = list(self._sort_out(items))
        self._good += len(good)
        rows = self.speculation.take(good)
        watermark = min((watch.watermark for watch in self._watches.values()), default=FOREVER)
        settled = self.speculation.settle(watermark)
        rows += settled.emitted
        self._processed += settled.processed
        self._faults += settled.faults
        # A timer is not an input; only one that fails is counted.
        self._good += sum(is_timer(self.program, fault.item) for fault in settled.faults)
        released = hold_back(self.barrier, rows, watermark)
        self._outputs += [Output(row.value, row.event, row.id[1], row.id[0]) for row in released]
        return SpeculativeStep(rows, watermark)

    def refuse(self, strangers: Iterable[Rejected]) -> None:
        """Add rejected items that belong to no channel of the run."""
        self._strangers += strangers

    def answer(self) -> Answer:
        """Return the answer of the settled events; pending events are in the total order."""
        late = [one for found in self._late.values() for one in found]
        rejected = list(self._strangers)
        rejected += [one for found in self._rejected.values() for one in found]
        counted = self._good + len(late) + len(rejected)
        rejected += self._faults
        pending = self.speculation.pending()
        ledger = Ledger(counted, self._processed, len(late), len(rejected), 0, len(pending))
        ledger.check(self.program.name)
        watermarks = {name: self._watches[name].watermark for name in sorted(self._watches)}
        state = self.speculation.state
        standings = {
            name: put_down(Standing(), self._watches[name]) for name in sorted(self._watches)
        }
        return Answer(self._outputs, state, ledger, late, rejected, pending, watermarks, standings)

    def _sort_out(self, items: Iterable[Item]) -> Iterator[Event]:
        for item in items:
            verdict = self._watches[item.channel].see(item, self.program.inputs)
            if isinstance(verdict, Late):
                self._late[item.channel].append(verdict)
            elif isinstance(verdict, Rejected):
                self._rejected[item.channel].append(verdict)
            elif verdict is not None:
                yield verdict


def run(
    program: Program,
    items: Iterable[Item],
    channels: Iterable[Channel] = (),
    *,
    sizes: Iterable[int] = repeat(1),
    leaves: Leaves | None = None,
) -> SpeculativeResult:
    """Run a program on items in the order of their arrival, speculatively.

    `sizes` are the numbers of items that arrive together; a correction within them is not emitted.
    Numbered items are processed in the order of their numbers, at the positions of their channel.
    Without `leaves`, those that the program's laws allow are used.
    """
    arriving = list(items)
    known, brought, strangers = read_channels(arriving, channels)
    check_units(program, known.values())
    queues = {name: iter(mine) for name, mine in brought.items()}
    turns = (next(queues[item.channel]) for item in arriving if item.channel in queues)
    speculative_run = SpeculativeRun(program, known.values(), leaves)
    speculative_run.refuse(strangers)
    moments: list[SpeculativeStep] = []
    for size in sizes:
        batch = list(islice(turns, size))
        if not batch and size:
            break
        moments.append(speculative_run.take(batch))
    return SpeculativeResult(moments, speculative_run.answer())


def find_leaves(program: Program) -> Leaves:
    """Return the event types of a program that may be folded into deltas, if it keeps its laws."""
    return Leaves(find_leaf_types(program), partial(join_deltas, program))
