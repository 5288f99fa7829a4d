"""Speculation of a shard without a root: pending events are folded too, from the settled state.

A shard stores the rows that it has rows_now for pending events. After a batch it folds the keys with new
events again, and emits only the difference. Independent of Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from anabranch.eventtime.timers import is_timer
from anabranch.microbatch.exchange.envelopes import Carried, pack_events, unpack_events
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_output
from anabranch.microbatch.speculative.row_barrier import read_id
from anabranch.microbatch.store.hashed_book import HashedBook
from anabranch.microbatch.store.shard_head import read_pending_pages
from anabranch.microbatch.store.state_store import Store
from anabranch.model.events import Event
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.model.values.maps import Map
from anabranch.plan.layouts import Layout
from anabranch.speculation.output_changes import compare
from anabranch.speculation.timed import fold_ahead
from anabranch.state.durable.codec import Codec

_BOOK = "changes"

Name = Any
"""The value of an event's key if keys are independent, or None."""


class PendingOutputs:
    """The rows that a shard has rows_now for events that are still pending, in pages of its store.

    With `by_key`, these events are stored there too, so that a batch reads those of the keys that it changes.
    """

    def __init__(self, program: Program, codec: Codec, layout: Layout, store: Store) -> None:
        self._program = program
        self._codec = codec
        self._layout = layout
        self._store = store
        self.by_key = layout.way == "keyed"

    def name(self, event: Event) -> Name:
        """Return the key of an event; events of other keys are independent of it."""
        return self._layout.key(event) if self.by_key else None

    def read_pending(self, pages: Iterable[int]) -> list[Event]:
        """Return the pending events in some pages of the store."""
        found: list[Event] = []
        for data in read_pending_pages(self._store, pages):
            carried = unpack_events(self._codec, self._program.event_types, data)
            found += [one.event for one in carried]
        return found

    def correct(
        self,
        rows: list[ResultRow],
        *,
        touched: set[Name],
        settled: set[Name],
        waiting: Iterable[Event],
        state: Any,
        watermark: int,
        counts_here: Callable[[Event], bool],
    ) -> list[ResultRow]:
        """Return the rows to emit after a batch, and store those of pending events.

        `rows` are those of the batch's settled fold, and `state` the state after it. The `touched` keys
        have new events, and are folded again; some events of the `settled` keys have settled. `waiting`
        are the new pending events; if they are not stored by key, all pending events.
        """
        fresh: dict[Name, list[Event]] = {}
        for event in waiting:
            fresh.setdefault(self.name(event), []).append(event)
        outputs = [row for row in rows if row.kind == "output"]
        gone = {row.id for row in outputs}
        before: dict[str, ResultRow] = {}
        now: list[ResultRow] = []
        book = HashedBook(self._store, self._codec, self._layout.shards, _BOOK)
        for name in touched | settled | fresh.keys():
            old, packed = book.get(name, ({}, None))
            events = self._recall(packed, watermark) + fresh.get(name, [])
            if name in touched:
                start = self._start(state, name) if events else None
                rows_now = self._fold(events, start, counts_here)
                stays = {row.id: tuple(row) for row in rows_now}
                now += rows_now
                before |= {i: ResultRow(*row) for i, row in old.items()}
            else:
                # The pending rows of a key without new events have not changed.
                stays = {i: row for i, row in old.items() if i not in gone}
                before |= {i: ResultRow(*row) for i, row in old.items() if i in gone}
            if stays or (events and self.by_key):
                book.set(name, (stays, self._pack(events) if self.by_key else None))
            else:
                book.remove(name)
        book.flush()
        now.sort(key=lambda row: read_id(row.id))
        return [row for row in rows if row.kind != "output"] + compare(
            before, [*outputs, *now], order=read_id
        )

    def _fold(
        self, events: list[Event], state: Any, counts_here: Callable[[Event], bool]
    ) -> list[ResultRow]:
        """Return the rows of pending events, folded from the settled state, which does not change."""
        types = self._program.output_types
        return [
            describe_output(value, one.event, index, one.key, types)
            for one in fold_ahead(self._program, state, events)
            if counts_here(one.event) or is_timer(self._program, one.event)
            for index, value in enumerate(one.outputs)
        ]

    def _recall(self, packed: bytes | None, watermark: int) -> list[Event]:
        """Return the stored events of a key that are still pending."""
        if packed is None:
            return []
        carried = unpack_events(self._codec, self._program.event_types, packed)
        return [one.event for one in carried if one.event.time > watermark]

    def _pack(self, events: Iterable[Event]) -> bytes:
        carried = (Carried(event, None, None) for event in events)
        return pack_events(self._codec, self._program.event_types, carried)

    def _start(self, state: Any, name: Name) -> Any:
        if not self.by_key:
            return state
        entry = state.get(name, MISSING)
        return Map({} if entry is MISSING else {name: entry})
