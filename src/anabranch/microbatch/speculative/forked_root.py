"""Speculation of a root: outputs of pending markers, from the settled state and the shards' pending deltas.

The state before every page of markers is kept. If something changes, only markers from that page on are run
again, and only until a page starts from the same state as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.microbatch.exchange.result_rows import ResultRow, describe_output
from anabranch.microbatch.speculative.row_barrier import read_id
from anabranch.microbatch.store.ordered_pages import OrderedPages
from anabranch.microbatch.store.state_store import Store, read_known_page, report_missing
from anabranch.model.events import Event
from anabranch.model.order import OrderKey, bound_after
from anabranch.model.program import Program
from anabranch.plan.foldable_leaves import join_deltas
from anabranch.speculation.event_rules import EventRules, SegmentStep
from anabranch.speculation.output_changes import compare
from anabranch.speculation.segments import run_again
from anabranch.state.durable.codec import Codec

if TYPE_CHECKING:
    from anabranch.microbatch.exchange.deltas import Delta

_BOOK = "ahead"
_STARTS = "ahead.starts"


class PendingMarker(NamedTuple):
    """A pending event that the root runs: the deltas of each shard before it, and its emitted rows."""

    event: tuple[Any, ...] | None = None
    parts: dict[int, dict[str, Any]] = {}  # noqa: RUF012 - never changed
    emitted: tuple[tuple[Any, ...], ...] = ()


class ForkedRootSpeculation:
    """The pending markers of a root during one batch."""

    def __init__(self, program: Program, codec: Codec, store: Store, *, begun: bool) -> None:
        self._program = program
        self._rules = EventRules(program)
        self._codec = codec
        self._store = store
        self._roll = OrderedPages(store, codec, _BOOK)
        if self._roll.is_new == begun:
            raise report_missing(store, _BOOK if begun else "ledger")
        self._spine: bytes | None = None
        self._before: dict[str, ResultRow] = {}
        self._now: list[ResultRow] = []

    def correct(
        self, rows: list[ResultRow], settled: Iterable[OrderKey], deltas: Iterable[Delta]
    ) -> list[ResultRow]:
        """Return a batch's rows, with the outputs of pending markers, without those that settle unchanged."""
        self._now = [row for row in rows if row.kind == "output"]
        last = max(settled, default=None)
        if last is not None:
            # Settled events share one watermark, so all events up to its time have settled.
            for _, cut in self._roll.take_before(bound_after(last[0])):
                self._before |= {row[1]: ResultRow(*row) for row in PendingMarker(*cut).emitted}
        for delta in deltas:
            self._note(delta)
        for number in self._roll.arrange():
            self._store.write_page(_STARTS, str(number), None)
        fresh = self._roll.changed
        changed = {n for n, page in enumerate(self._roll.pages) if page.number in fresh}
        if last is not None and self._roll.pages and self.enter(0, self.read_start(0)):
            changed.add(0)
        run_again(self, changed)
        self._roll.flush()
        others = [row for row in rows if row.kind != "output"]
        return others + compare(self._before, self._now, order=read_id)

    def _note(self, delta: Delta) -> None:
        cut = PendingMarker(*self._roll.get(delta.key, ()))
        parts = {**cut.parts, delta.shard: delta.states}
        event = cut.event if delta.event is None else tuple(delta.event)
        self._roll.put(delta.key, tuple(cut._replace(event=event, parts=parts)))

    def __len__(self) -> int:
        return len(self._roll.pages)

    def read_start(self, place: int) -> bytes:
        """Return the state at the start of a page: for the first one, the settled state."""
        if place:
            return read_known_page(self._store, _STARTS, str(self._roll.pages[place].number))
        if self._spine is None:
            self._spine = self._store.read("spine")
        if self._spine is None:
            raise report_missing(self._store, "spine")
        return self._spine

    def enter(self, place: int, state: bytes) -> bool:
        """Set the state at the start of a page; return whether it has changed."""
        name = str(self._roll.pages[place].number)
        kept = self._store.read_page(_STARTS, name)
        start = state if place else None
        if kept != start:
            self._store.write_page(_STARTS, name, start)
        return kept != state

    def run(self, place: int, data: bytes) -> bytes:
        """Run the markers of a page; return the state after them."""
        state = self._codec.decode(data)
        for key, value in self._roll.read(self._roll.pages[place]):
            cut = PendingMarker(*value)
            state, rows = self._run_cut(key, cut, state)
            self._before |= {row[1]: ResultRow(*row) for row in cut.emitted}
            self._now += rows
            emitted = tuple(tuple(row) for row in rows)
            if emitted != cut.emitted:
                self._roll.put(key, tuple(cut._replace(emitted=emitted)))
        return self._codec.encode(state)

    def _run_cut(
        self, key: OrderKey, cut: PendingMarker, state: Any
    ) -> tuple[Any, list[ResultRow]]:
        for shard in sorted(cut.parts):
            state = join_deltas(self._program, state, cut.parts[shard])
        assert cut.event is not None
        one = SegmentStep(key, Event(*cut.event))
        state = self._rules.run(state, one)
        types = self._program.output_types
        return state, [
            describe_output(v, one.event, i, key, types) for i, v in enumerate(one.outputs)
        ]
