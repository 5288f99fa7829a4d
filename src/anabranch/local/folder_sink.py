"""The output folder of an embedded run: batches as folders, published by one rename each, as on Spark."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.errors import InputError
from anabranch.eventtime.tolerance import Sample, Tolerance, explain_excess
from anabranch.local.published_tables import read_rejected
from anabranch.local.seeding_batches import finish_restore
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.runs.ownership import (
    PAIR,
    PairingError,
    check_apart,
    check_pair,
    find_last,
    write_pair,
)
from anabranch.microbatch.runs.part_files import Format, check_format, explain_disk, write_parts
from anabranch.microbatch.runs.published_batches import add_accounts, find_last_batch, read_ledger
from anabranch.publication import publish_folder, sync

if TYPE_CHECKING:
    import pyarrow as pa

_FORMATS = ("json", "parquet")
_MOST_SAMPLES = 10_000


class FolderSink:
    """An output folder of a job, in one format. With `durable`, a batch that is published survives a loss of power."""

    def __init__(
        self,
        job: Job,
        folder: Path,
        format: Format,  # noqa: A002
        *,
        durable: bool = True,
    ) -> None:
        if format not in _FORMATS:
            raise InputError(
                f"{format!r} is no format", expected=" or ".join(_FORMATS), got=repr(format)
            )
        self.folder = folder
        self._format = format
        self._durable = durable
        self._columns = OutputColumns(job.program.output_types, timestamped=job.program.timestamped)

    def check(self, checkpoint: Path | None) -> None:
        """Raise if the folder has batches of another format, or of another run."""
        check_format(self.folder, self._format)
        if checkpoint is not None:
            check_apart(self.folder, checkpoint)
        elif find_last_batch(self.folder) is not None:
            raise InputError(
                f"{self.folder} has the batches of another run",
                expected="a new folder, or checkpoint=, the checkpoint of that run",
                got="no checkpoint",
            )

    def accept(self, checkpoint: Path, begun: int, committed: int) -> None:
        """Raise if the folder and the checkpoint do not belong together; else write the same id into both.

        `begun` is the last batch that was planned, `committed` the last one that is complete; -1 if there is none.
        """
        finish_restore(self.folder, checkpoint)
        check_pair(self.folder, checkpoint, begun)
        if committed >= 0 and find_last(self.folder, "batch=*") == committed - 1:
            raise PairingError(
                f"batch {committed} is missing in {self.folder}",
                expected="all batches that the checkpoint has committed",
                got=f"batches up to {committed - 1}",
                cure="put the batch back; or start anew with a new checkpoint and a new folder",
            )
        with explain_disk("the output", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            write_pair(self.folder, checkpoint)
            if self._durable:
                for place in (self.folder, checkpoint):
                    sync(place / PAIR)
                    sync(place)

    def publish(
        self, batch: int, rows: Iterable[pa.RecordBatch], counts: list[dict[str, Any]]
    ) -> None:
        """Write a batch and make it visible by one rename; a batch that is already published stays as it is."""
        final = self.folder / f"batch={batch}"
        if final.exists():
            return
        with explain_disk(f"batch {batch}", self.folder), publish_folder(final) as draft:
            write_parts(rows, draft, "part-00000", self._format, self._columns)
            add_accounts(draft, batch, counts, self._format, self._columns)
            if self._durable:
                _sync_all([draft, *draft.rglob("*")])
        if self._durable:
            with explain_disk(f"batch {batch}", self.folder):
                sync(self.folder)

    def judge(self, batch: int, tolerance: Tolerance, *, ended: bool) -> None:
        """Raise `RejectionError` if more events were rejected, up to a batch, than tolerated."""
        ledger = read_ledger(self.folder / f"batch={batch}")
        if not tolerance.is_exceeded(ledger, ended=ended):
            return
        rows = read_rejected(self.folder).select(["reason", "raw"]).slice(0, _MOST_SAMPLES)
        samples = [Sample(row["reason"], row["raw"]) for row in rows.to_pylist()]
        place = f"{self.folder}/batch=*/rejected"
        raise explain_excess(ledger, tolerance, samples, f"batch {batch}", place)


def _sync_all(paths: list[Path]) -> None:
    """Wait until files and folders are written to disk, all at once: the disk takes them together."""
    with ThreadPoolExecutor(len(paths)) as pool:
        for _ in pool.map(sync, paths):
            pass
