"""The barrier over result rows: keeps speculative rows until they are settled."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from anabranch.eventtime.channels import NEVER
from anabranch.microbatch.exchange.result_rows import ResultRow
from anabranch.microbatch.store.state_store import Store
from anabranch.model.order import bound_after
from anabranch.speculation.barrier import Barrier
from anabranch.state.durable.codec import Codec


class RowBarrier:
    """The barrier over a query's rows: returns the settled rows of each batch, in order."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._codec = Codec()
        data = store.read("barrier")
        self._barrier = Barrier(*(() if data is None else self._codec.decode(data)))

    def process(self, rows: Iterable[ResultRow]) -> list[ResultRow]:
        """Process the rows of a batch; outputs are kept until they settle, other rows are returned at once."""
        found = list(rows)
        outputs = [row for row in found if row.kind == "output"]
        # Spark keeps no order within a batch. None is needed: a batch only retracts rows of earlier ones.
        for row in outputs:
            self._barrier.take(row.op, read_id(row.id), tuple(row._replace(op=1)))
        watermark = max(
            (_read_watermark(row) for row in found if row.kind == "ledger"), default=None
        )
        settled = [] if watermark is None else self._barrier.release((bound_after(watermark),))
        self._store.write("barrier", self._codec.encode(self._barrier.dump()))
        return [
            *(row for row in found if row.kind != "output"),
            *(ResultRow(*r) for _, r in settled),
        ]


def read_id(text: str) -> tuple[tuple[Any, ...], int]:
    """Return an output's id as a sortable value, from its text, which does not sort.

    >>> read_id('[7,0,"north",3]#1')
    ((7, 0, 'north', 3), 1)
    """
    key, _, index = text.rpartition("#")
    return tuple(json.loads(key)), int(index)


def _read_watermark(row: ResultRow) -> int:
    # Only shards report it; a root's counts are a ledger row too.
    return int(json.loads(row.value or "{}").get("watermark", NEVER))
