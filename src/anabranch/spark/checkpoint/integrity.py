"""Integrity checks of the files of a checkpoint, before a query processes anything.

Spark accepts a missing commit, and fails on other missing files only when it reads them, with an error about
something else. So the sink lists the files in a manifest with every batch, and a query starts only on a
checkpoint whose files agree with the manifest.
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
"""The number of files that an error names; `anabranch checkpoint verify` names all."""


class DamagedCheckpointError(AnabranchError, ValueError):
    """Files of a checkpoint are missing or changed; no query was started."""


@dataclass(frozen=True)
class FileFinding:
    """A file of a checkpoint that is damaged, and how."""

    file: str
    problem: Problem
    detail: str

    def __str__(self) -> str:
        return f"{self.file} is {self.problem}: {self.detail}"


@dataclass(frozen=True)
class IntegrityReport:
    """The result of an integrity check of a checkpoint.

    `batch` is the last batch in the manifest. It is None if the checkpoint has no manifest, as those of older
    releases; then the files can't be checked.
    """

    checkpoint: Path
    batch: int | None
    files: int
    findings: tuple[FileFinding, ...]

    @property
    def is_damaged(self) -> bool:
        """Return whether there are findings."""
        return bool(self.findings)


class Keeper:
    """Updates the manifest of a checkpoint while a query runs on it."""

    def __init__(self, manifest: FileManifest, checkpoint: Path) -> None:
        self._manifest = manifest
        self._checkpoint = checkpoint

    def note(self, batch: int) -> None:
        """Add the files of a batch; call it after the sink is done and before Spark commits the batch."""
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
        """Add the last commit, after a query has ended; from then on it must not be missing."""
        name = f"commits/{self._manifest.batch}"
        if name not in self._manifest.files and (found := _look_at(self._checkpoint, [name])):
            self._manifest.append(self._manifest.batch, found)


def guard_checkpoint(checkpoint: Path, retain: int) -> Keeper:
    """Return the keeper of a checkpoint's manifest; raise `DamagedCheckpointError` on damage.

    `retain` is the number of batches that Spark keeps from now on.
    """
    refuse_damage(checkpoint)
    return Keeper(renew_manifest(checkpoint, retain), checkpoint)


def refuse_damage(checkpoint: Path) -> None:
    """Raise `DamagedCheckpointError` if files of a checkpoint are damaged."""
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
    """Return which files of a checkpoint are truncated, changed, missing or extra. A query may be running."""
    place = Path(strip_scheme(checkpoint, "checkpoint"))
    if not any((place / name).exists() for name in (MANIFEST, "metadata", *FOLDERS)):
        raise InputError(
            f"{str(place)!r} is no checkpoint",
            expected="a folder with offsets, commits and state in it",
            got="a folder without them" if place.is_dir() else "no folder",
        )
    return inspect_checkpoint(place)


def inspect_checkpoint(checkpoint: Path) -> IntegrityReport:
    """Compare the files of a checkpoint with its manifest."""
    while True:
        before = _read_raw(checkpoint)
        report = _inspect(checkpoint)
        # A running query may have changed the files meanwhile.
        if not report.is_damaged or _read_raw(checkpoint) == before:
            return report


def renew_manifest(checkpoint: Path, retain: int) -> FileManifest:
    """Rewrite the manifest of a checkpoint from its present files.

    It leaves out the state of a batch that is not committed, because Spark repeats the batch and writes it
    again.
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
    """Return a finding if a committed batch, which had a line in the manifest, has none now."""
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
            continue  # It may have been uploaded again; `_open_all` checks it by its own checksums.
        size = (checkpoint / name).stat().st_size
        if size != entry.size:
            problem: Problem = "truncated" if size < entry.size else "changed"
            yield FileFinding(name, problem, f"it has {size} bytes, and had {entry.size}")
        elif entry.digest is not None and _hash(checkpoint / name) != entry.digest:
            yield FileFinding(name, "changed", f"its {size} bytes are not those that were written")


def _look_for_sums(
    checkpoint: Path, manifest: FileManifest, names: set[str]
) -> Iterator[FileFinding]:
    """Yield small files without other findings that Hadoop can't read, because its checksums are wrong.

    Large files are left to Spark, which may be about to write them again.
    """
    committed = _find_last_commit(names)
    for name in names:
        log, file = name_log(name), checkpoint / name
        try:
            if _is_large(log) or _is_repeated(log, committed) or sums_fit(file):
                continue
        except FileNotFoundError:
            continue  # Removed since it was listed.
        known = ", which is as it was written: it is enough to remove the checksums"
        place = name_sums(file).relative_to(checkpoint).as_posix()
        detail = f"it is not of {name}{known if name in manifest.files else ''}"
        yield FileFinding(place, "changed", detail)


def _look_for_extra(
    manifest: FileManifest, logs: dict[str, Log], names: set[str]
) -> Iterator[FileFinding]:
    """Yield files that no batch can have written, including one that was interrupted."""
    following: dict[str, int] = {}
    for name in manifest.files:
        if (log := logs.get(name)) and log.kind == "source":
            following[log.series] = max(following.get(log.series, 0), log.number + 1)
    for name in sorted(names - manifest.files.keys(), key=lambda name: (len(name), name)):
        log = logs.get(name)
        if log is None:
            # Spark, or a source, may have files of its own in the other folders.
            if name.startswith(("offsets/", "commits/")):
                yield FileFinding(name, "extra", "its name is not the number of a batch")
        elif log.kind == "source" and log.number == following.get(log.series, 0):
            # It has its own numbers, and may grow without a batch.
            following[log.series] = log.number + 1
        elif not _may_be_new(log, manifest.batch):
            yield FileFinding(
                name, "extra", f"no batch after batch {manifest.batch} has written it"
            )


def _may_be_new(log: Log, batch: int) -> bool:
    """Return whether the batch after the last one, or the end of the last one, can have written a file."""
    if log.kind == "single":
        return True
    if log.kind == "commits":
        return log.number == batch
    if log.kind == "snapshot":  # Written in the background, at any time.
        return log.number <= batch + 1
    return log.kind != "source" and log.number == batch + 1


def _open_all(checkpoint: Path, snapshots: dict[str, Log]) -> Iterator[FileFinding]:
    """Yield snapshots that can't be read, and files that the last snapshots share and that are missing.

    Those of older snapshots are not checked, because Spark may have begun to remove them.
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
        except Exception as error:  # noqa: BLE001 - any error is the finding
            yield FileFinding(name, "unreadable", str(error) or type(error).__name__)
            continue
        if log.number == last[log.series]:
            for file, size in shared.items():
                yield from _look_for_shared(checkpoint, place.parent / "SSTs" / file, size, name)


def _open(snapshot: Path) -> dict[str, int]:
    """Return the files that a snapshot shares with others, and the size of each."""
    with zipfile.ZipFile(snapshot) as archive:
        for name in archive.namelist():
            archive.read(name)  # It compares the file with its checksum.
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
    """Return the entries of files; files that Spark removes at this moment are left out."""
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
