"""Outlook: what the root says of pending cuts, from the settled state and what shards told of segments.

The state is kept before every page of cuts. If something changes, only cuts from that page on are run again,
and only until a page begins as it did.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from anabranch.microbatch.exchange.result_rows import ResultRow, describe_output
from anabranch.microbatch.speculative.keyed_shard import compare
from anabranch.microbatch.store.ordered_pages import OrderedPage, OrderedPages
from anabranch.microbatch.store.state_store import Store, read_known_page, report_missing
from anabranch.model.events import Event
from anabranch.model.failures import Failed, attempt
from anabranch.model.order import OrderKey, bound_after
from anabranch.model.program import Program
from anabranch.plan.foldable_leaves import join_deltas
from anabranch.state.durable.codec import Codec

if TYPE_CHECKING:
    from anabranch.microbatch.exchange.deltas import Delta

_BOOK = "ahead"
_STARTS = "ahead.starts"


class PendingMarker(NamedTuple):
    """A pending event that the root runs: what each shard folded before it, and what was said of it."""

    event: tuple[Any, ...] | None = None
    parts: dict[int, dict[str, Any]] = {}  # noqa: RUF012 - nobody changes it
    said: tuple[tuple[Any, ...], ...] = ()


class ForkedRootSpeculation:
    """What a root knows of pending cuts, at work on one batch."""

    def __init__(self, program: Program, codec: Codec, store: Store, *, begun: bool) -> None:
        self._program = program
        self._codec = codec
        self._store = store
        self._roll = OrderedPages(store, codec, _BOOK)
        if self._roll.is_new == begun:
            raise report_missing(store, _BOOK if begun else "ledger")
        self._before: dict[str, ResultRow] = {}
        self._now: list[ResultRow] = []

    def correct(
        self, rows: list[ResultRow], settled: Iterable[OrderKey], letters: Iterable[Delta]
    ) -> list[ResultRow]:
        """Return a batch's rows, with what pending cuts say, and without what settles as it was said."""
        self._now = [row for row in rows if row.kind == "output"]
        last = max(settled, default=None)
        if last is not None:
            # What settled shares one frontier, so all up to its time has settled.
            for _, cut in self._roll.take_before(bound_after(last[0])):
                self._before |= {row[1]: ResultRow(*row) for row in PendingMarker(*cut).said}
        for letter in letters:
            self._note(letter)
        for number in self._roll.arrange():
            self._store.write_page(_STARTS, str(number), None)
        self._run(moved=last is not None)
        self._roll.flush()
        return [row for row in rows if row.kind != "output"] + compare(self._before, self._now)

    def _note(self, letter: Delta) -> None:
        cut = PendingMarker(*self._roll.get(letter.key, ()))
        parts = {**cut.parts, letter.shard: letter.states}
        event = cut.event if letter.event is None else tuple(letter.event)
        self._roll.put(letter.key, tuple(cut._replace(event=event, parts=parts)))

    def _run(self, *, moved: bool) -> None:
        """Run again what has changed, and what follows from it; `moved` if the settled state has."""
        changed = set(self._roll.changed)
        state: bytes | None = None
        for place, page in enumerate(self._roll.pages):
            if place == 0:
                state = self._begin(page, changed) if moved or page.number in changed else None
            elif state is None and page.number in changed:
                state = read_known_page(self._store, _STARTS, str(page.number))
            elif state is not None and not self._differs(page, changed, state):
                state = None
            if state is not None:
                state = self._run_page(page, state)

    def _begin(self, page: OrderedPage, changed: set[int]) -> bytes | None:
        """Return the settled state, if the first page does not know that it begins with it."""
        state = self._store.read("spine")
        if state is None:
            raise report_missing(self._store, "spine")
        kept = self._store.read_page(_STARTS, str(page.number))
        if kept is not None:
            self._store.write_page(_STARTS, str(page.number), None)
        return None if kept == state and page.number not in changed else state

    def _differs(self, page: OrderedPage, changed: set[int], state: bytes) -> bool:
        """Say whether a page has to be run again, since it begins with this state."""
        kept = self._store.read_page(_STARTS, str(page.number))
        if kept != state:
            self._store.write_page(_STARTS, str(page.number), state)
        return kept != state or page.number in changed

    def _run_page(self, page: OrderedPage, data: bytes) -> bytes:
        state = self._codec.decode(data)
        for key, value in self._roll.read(page):
            cut = PendingMarker(*value)
            state, rows = self._run_cut(key, cut, state)
            self._before |= {row[1]: ResultRow(*row) for row in cut.said}
            self._now += rows
            said = tuple(tuple(row) for row in rows)
            if said != cut.said:
                self._roll.put(key, tuple(cut._replace(said=said)))
        return self._codec.encode(state)

    def _run_cut(
        self, key: OrderKey, cut: PendingMarker, state: Any
    ) -> tuple[Any, list[ResultRow]]:
        for shard in sorted(cut.parts):
            state = join_deltas(self._program, state, cut.parts[shard])
        assert cut.event is not None
        event = Event(*cut.event)
        stepped = attempt(self._program.initial.step, state, event)
        if isinstance(stepped, Failed):  # It is reported when it settles.
            return self._program.initial.set_aside(state, event), []
        state, outputs = stepped
        return state, [describe_output(v, event, i, key) for i, v in enumerate(outputs)]
