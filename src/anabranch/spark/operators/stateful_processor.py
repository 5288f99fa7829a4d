"""The stateful processor that Spark runs; `microbatch.operators` has the operators themselves.

Before its first batch a query starts a process for each operator, only to ask for its state variables. So the
processor carries its operator pickled, and imports the modules of the operator when the first rows arrive.
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
    """Runs an operator on each group of rows."""

    def __init__(self, kind: type[GroupOperator], *arguments: Any, **options: Any) -> None:
        packed = cloudpickle.dumps((kind, arguments, options))  # type: ignore[no-untyped-call]
        self._packed: bytes = packed
        self._operator: GroupOperator | None = None

    def init(self, handle: Any) -> None:
        """Open the state of the partition."""
        self._store = SparkStore(handle)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[pd.DataFrame]:
        """Return the output rows of one group of a batch."""
        if self._operator is None:
            kind, arguments, options = cloudpickle.loads(self._packed)
            self._operator = kind(self._store, *arguments, **options)
        yield self._operator.handle(int(key[0]), rows)
