"""Integrity: what is wrong with the files of a checkpoint, before anything is processed.

Spark accepts a commit that is gone, and fails of others when it comes to them, with an error about something
else. So the sink notes with every batch which files there are, in a manifest, and a query starts only on a
checkpoint that is as it was left.
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from anabranch.errors import AnabranchError, InputError
from anabranch.paths import strip_scheme
from anabranch.spark.checkpoint.file_manifest import MANIFEST, Entry, FileManifest, read_manifest
from anabranch.spark.checkpoint.hadoop_checksums import name_sums, sums_fit
from anabranch.spark.checkpoint.spark_logs import FOLDERS, Log, find_least, list_names, name_log

Problem = Literal["missing", "truncated", "changed", "extra", "unreadable"]

MOST_NAMED = 20
"""So many files are named in an error; `anabranch checkpoint verify` names them all."""


class DamagedCheckpointError(AnabranchError, ValueError):
    """Files of a checkpoint are not as they were left; nothing was started."""


@dataclass(frozen=True)
class FileFinding:
    """A file that is not as it should be."""

    file: str
    problem: Problem
    detail: str

    def __str__(self) -> str:
        return f"{self.file} is {self.problem}: {self.detail}"


@dataclass(frozen=True)
class IntegrityReport:
    """What became of a checkpoint's files.

    `batch` is the last one that the manifest knows of. Without a manifest, which an older release did not
    write, it is None: then there is nothing to compare with.
    """

    checkpoint: Path
    batch: int | None
    files: int
    findings: tuple[FileFinding, ...]

    @property
    def is_damaged(self) -> bool:
        """Say whether anything is wrong."""
        return bool(self.findings)


class Keeper:
    """Keeps the manifest of a checkpoint while a query runs on it."""

    def __init__(self, manifest: FileManifest, checkpoint: Path) -> None:
        self._manifest = manifest
        self._checkpoint = checkpoint

    def note(self, batch: int) -> None:
        """Note what a batch has written, when its sink is done and Spark has not committed it yet."""
        manifest, checkpoint = self._manifest, self._checkpoint
        names = list(list_names(checkpoint))
        fresh = _look_at(checkpoint, [name for name in names if name not in manifest.files])
        if manifest.is_long:
            files = manifest.files | fresh
            kept = {name: files[name] for name in names if name in files}
            manifest.write(batch, manifest.retain, kept)
        else:
            manifest.append(batch, fresh)

    def seal(self) -> None:
        """Note the last commit, when a query has ended: from now on it may not go missing."""
        name = f"commits/{self._manifest.batch}"
        if name not in self._manifest.files and (found := _look_at(self._checkpoint, [name])):
            self._manifest.append(self._manifest.batch, found)


def guard_checkpoint(checkpoint: Path, retain: int) -> Keeper:
    """Refuse a damaged checkpoint; begin to keep the manifest of any other.

    `retain` is how many batches Spark keeps from now on.
    """
    refuse_damage(checkpoint)
    return Keeper(renew_manifest(checkpoint, retain), checkpoint)


def refuse_damage(checkpoint: Path) -> None:
    """Refuse a checkpoint that is not as it was left."""
    report = inspect_checkpoint(checkpoint)
    if not report.is_damaged:
        return
    named = [str(finding) for finding in report.findings[:MOST_NAMED]]
    more = len(report.findings) - len(named)
    raise DamagedCheckpointError(
        f"the checkpoint {checkpoint} is damaged",
        expected="its files as the last batch left them",
        got="\n            ".join([*named, *([f"and {more} more"] if more else [])]),
        cure="put back a copy of the whole checkpoint and of its output folder, or start anew with both of "
        f"them new. If you have changed it on purpose, remove {MANIFEST}: then it is taken as it is",
    )


def verify_checkpoint(checkpoint: str | Path) -> IntegrityReport:
    """Say which files of a checkpoint are truncated, changed, missing or extra; a query may run on it."""
    place = Path(strip_scheme(checkpoint, "checkpoint"))
    if not any((place / name).exists() for name in (MANIFEST, "metadata", *FOLDERS)):
        raise InputError(
            f"{str(place)!r} is no checkpoint",
            expected="a folder with offsets, commits and state in it",
            got="a folder without them" if place.is_dir() else "no folder",
        )
    return inspect_checkpoint(place)


def inspect_checkpoint(checkpoint: Path) -> IntegrityReport:
    """Hold the files of a checkpoint against its manifest."""
    while True:
        before = _read_raw(checkpoint)
        report = _inspect(checkpoint)
        # A query that runs on it may have gone on in between.
        if not report.is_damaged or _read_raw(checkpoint) == before:
            return report


def renew_manifest(checkpoint: Path, retain: int) -> FileManifest:
    """Write the manifest of a checkpoint anew, of the files that there are.

    A batch that is not committed is repeated, and what it wrote into the state is written again.
    """
    names = list(list_names(checkpoint))
    committed = _find_last_commit(names)
    settled = [name for name in names if not _is_repeated(name_log(name), committed)]
    checkpoint.mkdir(parents=True, exist_ok=True)
    manifest = FileManifest(checkpoint)
    manifest.write(committed, retain, _look_at(checkpoint, settled))
    return manifest


def _inspect(checkpoint: Path) -> IntegrityReport:
    manifest = read_manifest(checkpoint)
    names = set(list_names(checkpoint))
    if manifest is None:
        return IntegrityReport(checkpoint, None, len(names), ())
    if manifest.fault is not None:
        finding = FileFinding(MANIFEST, "unreadable", manifest.fault)
        return IntegrityReport(checkpoint, manifest.batch, len(names), (finding,))
    logs = {name: log for name in names | manifest.files.keys() if (log := name_log(name))}
    least = find_least(logs.values(), manifest.batch, manifest.retain)
    needed = {name for name, log in logs.items() if log.number >= least[log.series]}
    snapshots = {name: logs[name] for name in needed & names if logs[name].kind == "snapshot"}
    findings = [
        *_look_for_known(checkpoint, manifest, needed, names),
        *(_look_for_lines(manifest, names) or _look_for_extra(manifest, logs, names)),
        *_open_all(checkpoint, snapshots),
    ]
    findings += _look_for_sums(checkpoint, manifest, names - {finding.file for finding in findings})
    order = {finding.file: finding for finding in sorted(findings, key=lambda found: found.file)}
    return IntegrityReport(checkpoint, manifest.batch, len(names), tuple(order.values()))


def _look_for_lines(manifest: FileManifest, names: set[str]) -> list[FileFinding]:
    """Look for a batch that was begun and committed, and so had a line in the manifest before."""
    last = _find_last_commit(names)
    if last <= manifest.batch or f"offsets/{last}" not in names:
        return []
    detail = f"its last line is of batch {manifest.batch}, and batch {last} is committed"
    return [FileFinding(MANIFEST, "truncated", detail)]


def _look_for_known(
    checkpoint: Path, manifest: FileManifest, needed: set[str], names: set[str]
) -> Iterator[FileFinding]:
    for name, entry in manifest.files.items():
        if name not in names:
            if name in needed:
                yield FileFinding(name, "missing", f"it had {entry.size} bytes")
            continue
        log = name_log(name)
        if log is not None and log.kind == "snapshot":
            continue  # It may have been uploaded again, and can be judged by itself.
        size = (checkpoint / name).stat().st_size
        if size != entry.size:
            problem: Problem = "truncated" if size < entry.size else "changed"
            yield FileFinding(name, problem, f"it has {size} bytes, and had {entry.size}")
        elif entry.digest is not None and _hash(checkpoint / name) != entry.digest:
            yield FileFinding(name, "changed", f"its {size} bytes are not those that were written")


def _look_for_sums(
    checkpoint: Path, manifest: FileManifest, names: set[str]
) -> Iterator[FileFinding]:
    """Look for small logs, right as far as we know, that Hadoop would refuse for the sums beside them.

    Large ones are left to Spark, which may be about to write them again.
    """
    committed = _find_last_commit(names)
    for name in names:
        log, file = name_log(name), checkpoint / name
        try:
            if _is_large(log) or _is_repeated(log, committed) or sums_fit(file):
                continue
        except FileNotFoundError:
            continue  # Removed since it was listed.
        known = ", which is as it was written: it is enough to remove the sums"
        place = name_sums(file).relative_to(checkpoint).as_posix()
        detail = f"it is not of {name}{known if name in manifest.files else ''}"
        yield FileFinding(place, "changed", detail)


def _look_for_extra(
    manifest: FileManifest, logs: dict[str, Log], names: set[str]
) -> Iterator[FileFinding]:
    """Look for files that no batch can have written, the one that was cut off included."""
    following: dict[str, int] = {}
    for name in manifest.files:
        if (log := logs.get(name)) and log.kind == "source":
            following[log.series] = max(following.get(log.series, 0), log.number + 1)
    for name in sorted(names - manifest.files.keys(), key=lambda name: (len(name), name)):
        log = logs.get(name)
        if log is None:
            # Spark, or a source, may have files of its own in the other folders.
            if name.startswith(("offsets/", "commits/")):
                yield FileFinding(name, "extra", "it is no number of a batch")
        elif log.kind == "source" and log.number == following.get(log.series, 0):
            # It counts by itself, and may have gone on without a batch.
            following[log.series] = log.number + 1
        elif not _may_be_new(log, manifest.batch):
            yield FileFinding(
                name, "extra", f"no batch after batch {manifest.batch} has written it"
            )


def _may_be_new(log: Log, batch: int) -> bool:
    """Say whether the batch after the last one, or the end of the last one, can have written a file."""
    if log.kind == "single":
        return True
    if log.kind == "commits":
        return log.number == batch
    if log.kind == "snapshot":  # Made in the background, when there is time.
        return log.number <= batch + 1
    return log.kind != "source" and log.number == batch + 1


def _open_all(checkpoint: Path, snapshots: dict[str, Log]) -> Iterator[FileFinding]:
    """Look whether snapshots can be read, and whether the last ones have the files that they share.

    Of older ones Spark may have begun to remove them.
    """
    last: dict[str, int] = {}
    for log in snapshots.values():
        last[log.series] = max(log.number, last.get(log.series, -1))
    for name, log in snapshots.items():
        place = checkpoint / name
        try:
            shared = _open(place)
        except FileNotFoundError:
            continue  # Removed since it was listed.
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it is the finding
            yield FileFinding(name, "unreadable", str(error) or type(error).__name__)
            continue
        if log.number == last[log.series]:
            for file, size in shared.items():
                yield from _look_for_shared(checkpoint, place.parent / "SSTs" / file, size, name)


def _open(snapshot: Path) -> dict[str, int]:
    """Return the files that a snapshot shares with others, and the size of each."""
    with zipfile.ZipFile(snapshot) as archive:
        for name in archive.namelist():
            archive.read(name)  # Which compares it with its sum.
        text = archive.read("metadata").decode("utf-8")
    needed = json.loads(text.partition("\n")[2]).get("sstFiles", [])
    return {file["dfsSstFileName"]: file["sizeBytes"] for file in needed}


def _look_for_shared(checkpoint: Path, place: Path, size: int, owner: str) -> Iterator[FileFinding]:
    name = place.relative_to(checkpoint).as_posix()
    try:
        found = place.stat().st_size
    except FileNotFoundError:
        yield FileFinding(name, "missing", f"{owner} needs it")
        return
    if found != size:
        problem: Problem = "truncated" if found < size else "changed"
        yield FileFinding(name, problem, f"it has {found} bytes, and had {size}")


def _look_at(checkpoint: Path, names: list[str]) -> dict[str, Entry]:
    """Return what is known of files; those that Spark removes in this moment are left out."""
    found = {}
    for name in names:
        log, place = name_log(name), checkpoint / name
        try:
            found[name] = Entry(place.stat().st_size, None if _is_large(log) else _hash(place))
        except FileNotFoundError:
            continue
    return found


def _is_large(log: Log | None) -> bool:
    return log is not None and log.kind in ("changes", "snapshot")


def _is_repeated(log: Log | None, committed: int) -> bool:
    return log is not None and log.is_state and log.number > committed


def _find_last_commit(names: list[str] | set[str]) -> int:
    logs = (name_log(name) for name in names if name.startswith("commits/"))
    return max((log.number for log in logs if log is not None), default=-1)


def _hash(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_raw(checkpoint: Path) -> bytes | None:
    try:
        return (checkpoint / MANIFEST).read_bytes()
    except FileNotFoundError:
        return None
