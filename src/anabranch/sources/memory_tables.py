"""A table in memory as a source: Arrow, pandas or Polars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.model.program import Program
from anabranch.sources.source_options import Source
from anabranch.sources.text_blocks import ROW

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class InMemory(Source):
    """A table in memory as a source: `InMemory(table, event=Bid, lateness="5 s")`.

    The table is of Arrow, pandas or Polars, and is the whole input. Its rows are in the order of arrival. The
    options are those of `Source`, which all sources share. The default of `channel` is the name of the event type.
    """

    table: Any

    def __post_init__(self) -> None:
        object.__setattr__(self, "table", to_arrow(self.table))
        super().__post_init__()

    @property
    def is_stream(self) -> bool:
        """Return False: the table is the whole input."""
        return False

    @property
    def is_numbered(self) -> bool:
        """Return True: the sequence of rows without one is their place."""
        return True

    def known_columns(self) -> Sequence[str]:
        """Return the columns of the table."""
        return list(self.table.column_names)

    def check_schema(self, program: Program) -> None:
        """Raise `InputError` if the columns of the table show that no row can become an event."""
        from anabranch.sources.schema_check import (
            explain_misfits,
            find_misfits,
            name_columns_beside,
            name_rows,
        )

        # The columns of an empty table often have no type, as in pandas.
        if self.json_column is not None or not self.table.num_rows:
            return
        event_types, columns = self.list_event_types(program), self.table.column_names
        misfits = find_misfits(self.table.schema, event_types, name_columns_beside(self))
        if misfits:
            what = name_rows(self, "table")
            raise explain_misfits(misfits, event_types, columns, what=what, place="")

    def number_rows(self) -> pa.Table:
        """Return the table with a column that numbers its rows."""
        import pyarrow as pa

        return self.table.append_column(ROW, pa.array(range(len(self.table)), pa.int64()))


def to_arrow(table: Any) -> pa.Table:
    """Return a table of Arrow, pandas or Polars as an Arrow table; raise `InputError` on anything else."""
    import pyarrow as pa

    if isinstance(table, pa.Table):
        return table
    if isinstance(table, pa.RecordBatch):
        return pa.Table.from_batches([table])
    if type(table).__module__.partition(".")[0] == "pandas" and hasattr(table, "columns"):
        return pa.Table.from_pandas(table, preserve_index=False)
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    raise InputError(
        f"{type(table).__name__} is not a table",
        expected="a table of Arrow, pandas or Polars",
        got=repr(table)[:100],
        cure="anabranch.run(program, events) runs a program on a list of events",
    )
