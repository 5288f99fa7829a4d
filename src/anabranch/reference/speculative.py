"""The speculative mode, without Spark: outputs at once, retractions, and a barrier at the end.

What leaves the barrier is what `reference/sequential.py` says, in any order of arrival.
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
    """What was said when some items came, and the watermark after them."""

    emitted: list[OutputChange]
    watermark: int


class Speech(NamedTuple):
    """All that was said, moment by moment, and the answer of what has settled."""

    moments: list[SpeculativeStep]
    answer: Answer

    @property
    def rows(self) -> list[OutputChange]:
        """Return everything that was said, in the order in which it was."""
        return [row for moment in self.moments for row in moment.emitted]

    @property
    def amount(self) -> Amount:
        """Return how much of it was in vain."""
        return measure(self.rows)


class SpeculativeRun:
    """A speculative run, item by item. `speculation` and `barrier` are all that it has to keep."""

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

    def hear(self, items: Iterable[Item]) -> SpeculativeStep:
        """Take in items, each in its channel's own sequence; return what there is to say."""
        good = list(self._sort_out(items))
        self._good += len(good)
        rows = self.speculation.take(good)
        watermark = min((watch.watermark for watch in self._watches.values()), default=FOREVER)
        settled = self.speculation.settle(watermark)
        rows += settled.emitted
        self._processed += settled.processed
        self._faults += settled.faults
        # A timer is no input; only one that fails is counted.
        self._good += sum(is_timer(self.program, fault.item) for fault in settled.faults)
        released = hold_back(self.barrier, rows, watermark)
        self._outputs += [Output(row.value, row.event, row.id[1], row.id[0]) for row in released]
        return SpeculativeStep(rows, watermark)

    def refuse(self, strangers: Iterable[Rejected]) -> None:
        """Take what is of no channel of the run."""
        self._strangers += strangers

    def answer(self) -> Answer:
        """Return the answer of what has settled; pending events stand in their total order."""
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
) -> Speech:
    """Run a program on items in the order of their arrival, speculatively.

    `sizes` says how many items come at a time; a correction within them is never said. Items that
    are numbered take their channel's turns in the order of their numbers. Without `leaves`, those
    that the program's laws allow are found.
    """
    arriving = list(items)
    known, brought, strangers = read_channels(arriving, channels)
    check_units(program, known.values())
    queues = {name: iter(mine) for name, mine in brought.items()}
    turns = (next(queues[item.channel]) for item in arriving if item.channel in queues)
    deferred_outputs = SpeculativeRun(program, known.values(), leaves)
    deferred_outputs.refuse(strangers)
    moments: list[SpeculativeStep] = []
    for size in sizes:
        batch = list(islice(turns, size))
        if not batch and size:
            break
        moments.append(deferred_outputs.hear(batch))
    return Speech(moments, deferred_outputs.answer())


def find_leaves(program: Program) -> Leaves:
    """Return what of a program may be folded beside the state, if it keeps its laws."""
    return Leaves(find_leaf_types(program), partial(join_deltas, program))
