"""The manifest: the program, progress and files of a savepoint, with a checksum of every file."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec.structs import asdict, replace

from anabranch.errors import AnabranchError
from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.ledger import Ledger
from anabranch.model.events import FOREVER
from anabranch.savepoints.file_names import MANIFEST, NAME, find_clash, find_fault

FORMAT: Final = 1
"""The version of this format. A release raises an error on versions that it does not support."""

MOST_BYTES = 64 << 20
"""The maximum size of a manifest: some hundred thousand files."""

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Sum = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]


class SavepointError(AnabranchError, ValueError):
    """A savepoint can't be made, read or moved."""


class ManifestError(SavepointError):
    """A manifest is invalid, inconsistent, or of a format that this release does not support."""


class FileRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file of a savepoint: its checksum, its size, and its number of rows if it is a table."""

    sha256: Sum
    bytes: Count
    rows: Count | None


class StandingRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The progress of a channel: `eventtime.channel_progress.Standing`, with names.

    `joined` is written only if it is set, so that a manifest without it keeps its id.
    """

    watermark: Whole
    largest: Whole | None
    last: Whole | None
    disorder: tuple[tuple[Count, Count, Count], ...]
    silence_ms: Whole
    waived: Whole
    joined: Whole | None = None


class LedgerRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The ledger: `eventtime.ledger.Ledger`, with names."""

    input: Count
    processed: Count
    late: Count
    rejected: Count
    shed: Count
    pending: Count


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The description of a savepoint. `files` and `id` are filled in when it is sealed.

    `id` is a checksum of everything except name and date: two savepoints with the same id have the same
    content.
    """

    format: Literal[1] = FORMAT
    id: str = ""
    name: Annotated[str, msgspec.Meta(pattern=NAME)]
    made_at: str
    anabranch: str
    program: str
    runtime: Literal["reference", "local", "spark"]
    fingerprint: dict[str, str]
    watermark: Whole
    watermarks: dict[str, Whole]
    standings: dict[str, StandingRecord]
    ledger: LedgerRecord
    clock_ms: Whole | None = None
    batch: Whole | None = None
    offsets: tuple[str, ...] = ()
    schema: dict[str, Any]
    files: dict[str, FileRecord] = {}

    def list_standings(self) -> dict[str, Standing]:
        """Return the standing of each channel."""
        return {name: Standing(**asdict(record)) for name, record in self.standings.items()}

    def list_ledger(self) -> Ledger:
        """Return the ledger."""
        return Ledger(**asdict(self.ledger))

    def seal(self, files: Mapping[str, FileRecord]) -> Manifest:
        """Return this manifest with its files, and the resulting id."""
        sealed = replace(self, files=dict(sorted(files.items())))
        return replace(sealed, id=find_id(sealed))


def find_id(manifest: Manifest) -> str:
    """Return the checksum of a manifest without its id, name and date."""
    plain = replace(manifest, id="", name="_", made_at="")
    return hashlib.sha256(msgspec.json.encode(plain, order="deterministic")).hexdigest()


def record_standings(standings: Mapping[str, Standing]) -> dict[str, StandingRecord]:
    """Return standings as records of a manifest."""
    return {name: StandingRecord(*standings[name]) for name in sorted(standings)}


def write_manifest(manifest: Manifest) -> bytes:
    """Return a manifest as indented JSON."""
    check_manifest(manifest)
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def read_manifest(data: bytes) -> Manifest:
    """Return the manifest in JSON; raise if it is invalid."""
    if len(data) > MOST_BYTES:
        raise ManifestError(
            f"{MANIFEST} is too large",
            expected=f"at most {MOST_BYTES:,} bytes",
            got=f"{len(data):,}",
        )
    _check_format(data)
    try:
        manifest = msgspec.json.decode(data, type=Manifest)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ManifestError(
            f"{MANIFEST} does not have the fields of its format",
            expected=f"the fields of format {FORMAT}, and no others",
            got=str(error),
        ) from error
    check_manifest(manifest)
    if manifest.id != find_id(manifest):
        raise _contradiction("its id is not its checksum", manifest.id)
    return manifest


def check_manifest(manifest: Manifest) -> None:
    """Raise if a manifest is inconsistent, or has invalid file names."""
    watermarks = {name: record.watermark for name, record in manifest.standings.items()}
    if manifest.watermarks != watermarks:
        raise _contradiction("watermarks differ from standings", str(manifest.watermarks))
    if manifest.watermark != min(watermarks.values(), default=FOREVER):
        raise _contradiction(
            "the watermark is not the least of its channels'", str(manifest.watermark)
        )
    if not manifest.list_ledger().balanced:
        raise _contradiction("events are not conserved", str(manifest.list_ledger()))
    if not re.match(NAME, manifest.name) or manifest.name == "latest":
        raise ManifestError(
            f"a savepoint can't be called {manifest.name!r}",
            expected="letters, digits, _, - and ., and not `latest`",
            got=repr(manifest.name),
        )
    if not _is_date(manifest.made_at):
        raise _contradiction("made_at is not a date with a zone", repr(manifest.made_at))
    for path in manifest.files:
        fault = find_fault(path)
        if fault is not None:
            raise _contradiction(f"it has an invalid file name: {fault}", repr(path))
    clash = find_clash(manifest.files)
    if clash is not None:
        raise _contradiction("two file names differ only by case", " and ".join(clash))


def _check_format(data: bytes) -> None:
    try:
        found: Any = msgspec.json.decode(data)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ManifestError(f"{MANIFEST} is not JSON", got=str(error)) from error
    number = found.get("format") if isinstance(found, dict) else None
    if number != FORMAT or type(number) is not int:
        raise ManifestError(
            "this savepoint has a format that this release does not support",
            expected=f"format {FORMAT}",
            got=f"format {number!r}",
            cure="read it with the release that made it, which is in its manifest",
        )


def _contradiction(what: str, got: str) -> ManifestError:
    return ManifestError(f"{MANIFEST} is inconsistent: {what}", got=got)


def _is_date(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False
