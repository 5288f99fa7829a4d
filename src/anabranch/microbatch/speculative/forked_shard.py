"""Speculation of a forked program's shard.

It emits the outputs of leaves as soon as they arrive, and sends the root the deltas of pending segments.
Independent of Spark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from anabranch.microbatch.exchange.envelopes import unpack_events
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_output
from anabranch.microbatch.speculative.row_barrier import read_id
from anabranch.microbatch.store.ordered_pages import OrderedPages
from anabranch.microbatch.store.shard_head import read_pending_pages
from anabranch.microbatch.store.state_store import Inventory
from anabranch.model.events import Event
from anabranch.model.failures import Failed
from anabranch.model.order import OrderKey, bound_after, order_key
from anabranch.model.program import Program
from anabranch.plan.layouts import Layout
from anabranch.speculation.event_rules import attempt_ahead
from anabranch.speculation.output_changes import compare
from anabranch.speculation.segments import TAIL, Deltas, Segments
from anabranch.state.durable.codec import Codec

Placed = tuple[OrderKey, Event]


class Span(NamedTuple):
    """The first and last times of a page of pending events."""

    first: int
    last: int


class SegmentDelta(NamedTuple):
    """The delta of a shard's leaves before a pending event; and the event itself in its home shard."""

    key: OrderKey
    states: dict[str, Any]
    event: Event | None


class ForkedShardSpeculation:
    """A forked shard's pending events during one batch, after the stable events have been folded."""

    def __init__(
        self, program: Program, layout: Layout, codec: Codec, store: Inventory, number: int
    ) -> None:
        self._program = program
        self._layout = layout
        self._codec = codec
        self._store = store
        self._number = number
        types = {event_type: program.state_type(name) for event_type, name in layout.leaves.items()}
        self._deferring = {
            event_type for event_type, kind in types.items() if kind.handlers[event_type].output
        }
        self._spans: dict[int, Span] = {}
        self._read: dict[int, list[Placed]] = {}
        self._early: list[Placed] = []

    def take(
        self,
        good: Iterable[Event],
        watermark: int,
        pages: Mapping[int, tuple[int, int]],
        ends: Mapping[int, int],
    ) -> list[SegmentDelta]:
        """Add a batch's events; return the changed deltas of pending segments for the root.

        `pages` are all current pages of pending events, `ends` the last times of new ones.
        """
        self._follow_pages(pages, ends)
        placed = sorted(self._place(good, watermark), key=lambda pair: pair[0])
        leaves = [pair for pair in placed if type(pair[1].data) in self._layout.leaves]
        cuts = [key for key, event in placed if type(event.data) in self._layout.cuts]
        waiting = [pair for pair in placed if pair[1].time > watermark]
        self._early = [pair for pair in waiting if type(pair[1].data) in self._deferring]
        events = {key: event for key, event in waiting if self._is_at_home(event)}
        changed = self._fold_segments(cuts, leaves, watermark)
        deltas = (
            SegmentDelta(key, changed.get(key, {}), events.get(key))
            for key in sorted(changed.keys() | events.keys())
        )
        known = set(cuts)
        return [one for one in deltas if one.states or one.event or one.key not in known]

    def correct(
        self, rows: list[ResultRow], good: Iterable[Event], stable: Iterable[Placed]
    ) -> list[ResultRow]:
        """Return a batch's rows, with the outputs of new leaves, and without those that settle unchanged.

        The speculative output of a leaf is its output on a state from zero; it is corrected if it settles
        otherwise.
        """
        order, deferring = self._program.order, self._deferring
        fresh = Counter(order(event) for event in good if type(event.data) in deferring)
        before: dict[str, ResultRow] = {}
        # Of events that are equal, those that arrived last are the last.
        for key, event in reversed([p for p in stable if type(p[1].data) in deferring]):
            if fresh[order(event)]:
                fresh[order(event)] -= 1
            else:
                before |= {row.id: row for row in self._describe_outputs(key, event)}
        outputs = [row for row in rows if row.kind == "output"]
        early = [row for key, event in self._early for row in self._describe_outputs(key, event)]
        return [
            *(row for row in rows if row.kind != "output"),
            *compare(before, [*outputs, *early], order=read_id),
        ]

    def _fold_segments(
        self, cuts: Iterable[OrderKey], leaves: Iterable[Placed], watermark: int
    ) -> dict[OrderKey, Deltas]:
        """Return the deltas of the segments that have changed, by the cuts that end them."""
        pages = OrderedPages(self._store, self._codec, "segments")
        segments: Segments[Event] = Segments(pages, self._read_stretch)
        for key in cuts:
            segments.cut(key)
        closed = segments.settle(bound_after(watermark))
        for key, event in leaves:
            if not closed or key > closed[-1]:
                segments.add(key, event)
        found = {end: segments.refold(end, self._fold) for end in segments.changed}
        pages.flush()
        found.pop(TAIL, None)
        return found

    def _fold(self, deltas: Deltas, event: Event) -> Deltas:
        state_type = self._program.state_type(self._layout.leaves[type(event.data)])
        delta = deltas.get(state_type.name, state_type.begin_delta())
        stepped = attempt_ahead(state_type.step_delta, delta, event)
        if isinstance(stepped, Failed):  # The failure is reported when it settles.
            return deltas
        return {**deltas, state_type.name: stepped[0]}

    def _describe_outputs(self, key: OrderKey, event: Event) -> list[ResultRow]:
        state_type = self._program.state_type(self._layout.leaves[type(event.data)])
        stepped = attempt_ahead(state_type.step_delta, state_type.begin_delta(), event)
        if isinstance(stepped, Failed):  # The failure is reported when it settles.
            return []
        types = self._program.output_types
        return [describe_output(value, event, i, key, types) for i, value in enumerate(stepped[1])]

    def _is_at_home(self, event: Event) -> bool:
        layout = self._layout
        return type(event.data) not in layout.leaves and layout.counts(event, self._number)

    def _place(self, good: Iterable[Event], watermark: int) -> list[Placed]:
        """Return events with their places; equal ones without a sequence get different ones, if it matters."""
        ranks, leaves = self._program.ranks, self._layout.leaves.keys() - self._deferring
        placed = [(order_key(event, ranks), event) for event in good]
        tied = [e for _, e in placed if e.seq is None and type(e.data) not in leaves]
        if not tied and "ties" not in self._store.held:
            return placed
        ties = OrderedPages(self._store, self._codec, "ties")
        for place, (key, event) in enumerate(placed):
            if event.seq is None and type(event.data) not in leaves:
                count = ties.get(key, 0)
                ties.put(key, count + 1)
                placed[place] = ((*key, count) if count else key, event)
        ties.take_before(bound_after(watermark))
        ties.flush()
        return placed

    def _follow_pages(self, pages: Mapping[int, tuple[int, int]], ends: Mapping[int, int]) -> None:
        data = self._store.read("ends")
        known = ends if data is None else {**self._codec.decode(data), **ends}
        self._spans = {page: Span(first, known[page]) for page, (first, _) in pages.items()}
        kept = {page: span.last for page, span in self._spans.items()}
        self._store.write("ends", self._codec.encode(kept))

    def _read_stretch(
        self, start: OrderKey | None, end: OrderKey
    ) -> tuple[dict[str, Any], list[Placed]]:
        """Return the delta of settled leaves, if a stretch begins with it, and its pending leaves."""
        first = None if start is None else start[0]
        leaves = [
            pair
            for page, span in self._spans.items()
            if span.first <= end[0] and (first is None or first <= span.last)
            for pair in self._read_page(page)
            if pair[0] < end and (start is None or start < pair[0])
        ]
        data = self._store.read("deltas") if start is None else None
        return {} if data is None else self._codec.decode(data), leaves

    def _read_page(self, page: int) -> list[Placed]:
        if page not in self._read:
            program = self._program
            (data,) = read_pending_pages(self._store, [page])
            events = (one.event for one in unpack_events(self._codec, program.event_types, data))
            self._read[page] = [
                (program.order(event), event)
                for event in events
                if type(event.data) in self._layout.leaves
            ]
        return self._read[page]
