"""The checkpoint of an embedded run: a folder with a page log, which one process at a time may use."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anabranch.errors import InputError
from anabranch.local.page_log import (
    Commit,
    PageLog,
    PlannedBatch,
    Sync,
    list_logs,
    read_first_commit,
    read_log,
)
from anabranch.microbatch.job.fingerprint import check_fingerprint
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.runs.checkpoint_locks import Lock
from anabranch.microbatch.runs.file_batches import FileBatches, Offset
from anabranch.microbatch.runs.ownership import Begin
from anabranch.speculation.output_changes import Mode

BEGUN = "begun"
"""In what a commit records: the savepoint that the run began with, and the number of its first batch."""


ENDED = "ended"
"""In what a commit records: whether the input was bounded, so that everything is settled."""


class Checkpoint:
    """An open checkpoint: the log of its pages, and the lock of this process."""

    def __init__(self, place: Path, job: Job, sync: Sync) -> None:
        if (place / "offsets").is_dir():
            raise InputError(
                f"{place} is the checkpoint of a query on Spark",
                expected="a new folder, or the checkpoint of an embedded run",
                got="a checkpoint of Spark",
                cure="run it with --master; or create a savepoint of it, and restore that here",
            )
        self._job = job
        self._lock = Lock(place)
        try:
            self.log = PageLog(place, sync)
        except BaseException:
            self._lock.release()
            raise
        try:
            commit = self.log.commit
            if commit is not None:
                check_fingerprint(commit.about["made_by"], job.fingerprint())
        except BaseException:
            self.close()
            raise

    @property
    def next_batch(self) -> int:
        """Return the number of the next batch, as it is published."""
        commit = self.log.commit
        return 0 if commit is None else commit.batch + 1

    @property
    def begun(self) -> int:
        """Return the last batch that was planned; -1 if there is none."""
        return self.next_batch - 1 if self.log.plan is None else self.log.plan.batch

    def offset(self, batches: FileBatches) -> Offset:
        """Return the offset after the last committed batch."""
        commit = self.log.commit
        return batches.begin() if commit is None else commit.offset

    def commit(self, plan: PlannedBatch, changes: Mapping[str, bytes | None]) -> None:
        """Commit a batch, with the pages that it has changed."""
        about = make_about(self._job, None if self.log.commit is None else self.log.commit.about)
        self.log.write_commit(Commit(plan.batch, plan.offset, about), changes)

    def close(self) -> None:
        """Close the log, and release the lock."""
        self.log.close()
        self._lock.release()


def make_about(job: Job, before: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a commit records beside its offset: the fingerprint of the job, and where the run began."""
    begun = {BEGUN: before[BEGUN]} if before and BEGUN in before else {}
    return {"made_by": job.fingerprint(), **({ENDED: True} if job.ended else {}), **begun}


def read_begun(place: Path) -> Begin:
    """Return the savepoint that a checkpoint was restored from; the default if there is none."""
    logs = list_logs(place)
    commit = read_log(max(logs.items())[1]).commit if logs else None
    return Begin() if commit is None else Begin(**commit.about.get(BEGUN, {}))


def read_made_by(place: Path) -> dict[str, str]:
    """Return the fingerprint of the job that made a checkpoint; empty if there is none.

    The caller does not hold the lock yet: a process that does may replace the log at any moment.
    """
    logs = list_logs(place)
    try:
        commit = read_first_commit(max(logs.items())[1]) if logs else None
    except OSError:
        return {}
    return {} if commit is None else dict(commit.about["made_by"])


def read_mode(place: Path) -> Mode:
    """Return the mode of the run that made a checkpoint."""
    return "settled" if read_made_by(place).get("mode", "settled") == "settled" else "speculative"


def is_checkpoint(place: Path) -> bool:
    """Return whether a folder is the checkpoint of an embedded run."""
    return bool(list_logs(place))
