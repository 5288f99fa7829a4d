"""Speculation in a shard: what is pending is folded too, from the settled state, and said at once.

A shard remembers what it has said of pending events. After a batch it folds again what new events
touch, and says only the difference. Nothing here knows Spark.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from anabranch.errors import InputError
from anabranch.eventtime.sources import NEVER
from anabranch.eventtime.timers import is_timer
from anabranch.model.events import Event
from anabranch.model.hashing import hash_stably
from anabranch.model.maps import Map
from anabranch.model.order import bound_after
from anabranch.model.program import Program
from anabranch.model.shapes import MISSING
from anabranch.plan.wiring import Wiring, wire
from anabranch.spark.envelopes import unpack_events
from anabranch.spark.said import Said, describe_output
from anabranch.spark.stores import Store, read_known_page
from anabranch.speculation.barrier import Barrier
from anabranch.speculation.timed import fold_ahead
from anabranch.state.codec import Codec

PAGES = 256
"""Pages of what was said, per shard. Fixed, like those of entries."""

_BOOK = "spoken"
_ALL = "all"

Name = Any
"""The value of the key by which a shard's events are apart, or None."""


def check_mode(mode: str) -> None:
    """Refuse what is no mode."""
    if mode not in ("settled", "speculative"):
        raise InputError(
            f"{mode!r} is no mode", expected="settled, which is the default, or speculative"
        )


def wire_in_order(program: Program, shards: int, hot: Iterable[Any] = ()) -> Wiring:
    """Choose the best way in which every shard folds its events in order, without a root."""
    wiring = wire(program, shards)
    reasons = wiring.reasons
    if any(True for _ in hot):
        reasons += ("speculative: a hot key is not spread, since what is said may be taken back",)
    if wiring.way in ("forked", "shared"):
        why = (
            "speculative: one shard folds in order what would fold apart, to take back what it said"
        )
        return Wiring("sequential", 1, (), frozenset(), (why,))
    return replace(wiring, reasons=reasons)


class Memory:
    """What a shard has said of events that are still pending, in pages of its store."""

    def __init__(self, program: Program, codec: Codec, wiring: Wiring, store: Store) -> None:
        self._program = program
        self._codec = codec
        self._wiring = wiring
        self._store = store

    def name(self, event: Event) -> Name:
        """Return the key of an event, of which no other key's events have to know."""
        return self._wiring.key(event) if self._wiring.way == "keyed" else None

    def read_pending(self, pages: Iterable[int]) -> list[Event]:
        """Return the pending events that lie in some pages of the store."""
        found: list[Event] = []
        for page in pages:
            data = read_known_page(self._store, "pending", str(page))
            carried = unpack_events(self._codec, self._program.tags, data)
            found += [one.event for one in carried]
        return found

    def fold(
        self,
        touched: set[Name],
        events: Iterable[Event],
        state: Any,
        counts_here: Callable[[Event], bool],
    ) -> list[tuple[Name, Said]]:
        """Fold the pending events of some keys from the settled state, which stays as it is.

        Return what they say, in order, each with its key.
        """
        mine: dict[Name, list[Event]] = {}
        for event in events:
            name = self.name(event)
            if name in touched:
                mine.setdefault(name, []).append(event)
        said: list[tuple[Any, Name, Said]] = []
        for name, pending in mine.items():
            for one in fold_ahead(self._program, self._start(state, name), pending):
                if counts_here(one.event) or is_timer(self._program, one.event):
                    said += [
                        ((one.key, index), name, describe_output(value, one.event, index, one.key))
                        for index, value in enumerate(one.outputs)
                    ]
        said.sort(key=lambda row: row[0])
        return [(name, row) for _, name, row in said]

    def correct(
        self,
        rows: list[Said],
        pending: list[tuple[Name, Said]],
        touched: set[Name],
        settled: set[Name],
    ) -> list[Said]:
        """Return what there is to say after a batch, and remember it.

        `rows` is what the settled fold of the batch said, `pending` what the rest says now, of the
        `touched` keys, which got new events. Of the `settled` keys something has settled.
        """
        outputs = [row for row in rows if row.kind == "output"]
        gone = {row.id for row in outputs}
        fresh: dict[Name, dict[str, tuple[Any, ...]]] = {}
        for name, row in pending:
            fresh.setdefault(name, {})[row.id] = tuple(row)
        before: dict[str, Said] = {}
        for page, mine in self._by_page(touched | settled).items():
            kept = self._read(page)
            for name in mine:
                old = kept.pop(name, {})
                # Of a key without new events, what is still pending is what it was.
                stays = {} if name in touched else {i: r for i, r in old.items() if i not in gone}
                before.update((i, Said(*row)) for i, row in old.items() if i not in stays)
                stays |= fresh.get(name, {})
                if stays:
                    kept[name] = stays
            self._store.write_page(_BOOK, page, self._codec.encode(kept) if kept else None)
        now = [*outputs, *(row for _, row in pending)]
        return [row for row in rows if row.kind != "output"] + _compare(before, now)

    def _start(self, state: Any, name: Name) -> Any:
        if self._wiring.way != "keyed":
            return state
        entry = state.get(name, MISSING)
        return Map({} if entry is MISSING else {name: entry})

    def _by_page(self, names: set[Name]) -> dict[str, list[Name]]:
        found: dict[str, list[Name]] = {}
        for name in names:
            number = hash_stably(name) // self._wiring.shards % PAGES
            page = str(number) if self._wiring.way == "keyed" else _ALL
            found.setdefault(page, []).append(name)
        return found

    def _read(self, page: str) -> dict[Name, dict[str, tuple[Any, ...]]]:
        data = self._store.read_page(_BOOK, page)
        return {} if data is None else self._codec.decode(data)  # type: ignore[no-any-return]


def _compare(before: dict[str, Said], now: list[Said]) -> list[Said]:
    """Return the retractions and rows that lead from one to the other."""
    standing = {row.id for row in now}
    vanished = sorted((i for i in before if i not in standing), key=read_id)
    rows = [before[i]._replace(op=-1) for i in vanished]
    for row in now:
        old = before.get(row.id)
        if old is not None and old.value == row.value:
            continue
        rows += [row] if old is None else [old._replace(op=-1), row]
    return rows


class RowBarrier:
    """The barrier over a query's rows: a batch of them in, those that have settled out, in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._codec = Codec()
        data = store.read("barrier")
        self._barrier = Barrier(*(() if data is None else self._codec.decode(data)))

    def process(self, rows: Iterable[Said]) -> list[Said]:
        """Take in the rows of a batch; outputs are held back, the others go on as they are."""
        found = list(rows)
        outputs = [row for row in found if row.kind == "output"]
        # Spark keeps no order within a batch. It need not: a batch takes back what another one said.
        for row in outputs:
            self._barrier.take(row.op, read_id(row.id), tuple(row._replace(op=1)))
        frontier = max((_read_frontier(row) for row in found if row.kind == "ledger"), default=None)
        settled = [] if frontier is None else self._barrier.release((bound_after(frontier),))
        self._store.write("barrier", self._codec.encode(self._barrier.dump()))
        return [*(row for row in found if row.kind != "output"), *(Said(*r) for _, r in settled)]


def read_id(text: str) -> tuple[tuple[Any, ...], int]:
    """Return an output's id, which sorts, from its text, which does not.

    >>> read_id('[7,0,"north",3]#1')
    ((7, 0, 'north', 3), 1)
    """
    key, _, index = text.rpartition("#")
    return tuple(json.loads(key)), int(index)


def _read_frontier(row: Said) -> int:
    # Only shards know it; a root's counts are a ledger row too.
    return int(json.loads(row.value or "{}").get("frontier", NEVER))
