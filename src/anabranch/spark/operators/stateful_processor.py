"""The stateful operators, as Spark runs them; what they do is done by `workers.py`.

Before its first batch a query starts a process for each operator, only to hear which state it has. So an operator
carries its worker packed up, and nobody imports what that needs before there are rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from anabranch.microbatch.store.handle_store import SparkStore

if TYPE_CHECKING:
    import pandas as pd

    from anabranch.microbatch.operators.group_operators import GroupOperator


class ShardProcessor(StatefulProcessor):
    """Lets a worker of a kind do its work on each group of rows."""

    def __init__(self, kind: type[GroupOperator], *arguments: Any, **options: Any) -> None:
        packed = cloudpickle.dumps((kind, arguments, options))  # type: ignore[no-untyped-call]
        self._packed: bytes = packed
        self._worker: GroupOperator | None = None

    def init(self, handle: Any) -> None:
        """Find the state."""
        self._store = SparkStore(handle)

    def close(self) -> None:
        """Have nothing to close."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Work on a batch's rows of one group."""
        if self._worker is None:
            kind, arguments, options = cloudpickle.loads(self._packed)
            self._worker = kind(self._store, *arguments, **options)
        yield self._worker.handle(int(key[0]), rows)
