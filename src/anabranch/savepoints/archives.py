"""Archives of savepoints: export to one file, and safe import of untrusted files.

The headers of an archive are not trusted: bytes are counted as they are unpacked, each name is checked, and
the result must be a savepoint with matching checksums.
"""

from __future__ import annotations

import gzip
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, Protocol

from anabranch.paths import strip_scheme
from anabranch.publication import publish_file
from anabranch.savepoints.drafts import begin_draft, check_is_free
from anabranch.savepoints.file_names import MANIFEST, MANIFEST_SUM, NAME, find_fault
from anabranch.savepoints.folders import (
    DamagedSavepointError,
    ForbiddenFileError,
    Savepoint,
    check_files,
    open_savepoint,
)
from anabranch.savepoints.manifest import ManifestError, SavepointError

_BLOCK = 1 << 20
_MOST_HEADER = 1 << 16
_LONG_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_UNREADABLE = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError, UnicodeError,
    NotImplementedError, RuntimeError, ValueError,
)  # fmt: skip


class HostileArchiveError(SavepointError):
    """An archive is not one of a savepoint, or is malicious. Nothing was unpacked."""


@dataclass(frozen=True)
class Limits:
    """The limits of an archive: files, unpacked bytes, and the ratio of unpacked to packed bytes.

    The ratio is checked above `free_bytes` unpacked bytes.
    """

    files: int = 100_000
    bytes: int = 64 << 30
    ratio: int = 100
    free_bytes: int = 64 << 20


LIMITS = Limits()


class _Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int = -1, /) -> bytes: ...


class _Member(NamedTuple):
    """A member of an archive: a folder, or a stream of bytes."""

    name: str
    stream: _Readable | None


def export_archive(savepoint: Savepoint, file: Path | str) -> Path:
    """Write a savepoint to a .tar.gz or .zip file; the same savepoint gives the same bytes."""
    file = Path(strip_scheme(file, "savepoint"))
    kind = find_kind(file)
    check_is_free(file)
    check_files(savepoint.path, savepoint.manifest)
    try:
        with publish_file(file, durable=True) as partial, partial.open("wb") as raw:
            (_pack_tar if kind == "tar" else _pack_zip)(savepoint, raw)
    except OSError as error:
        raise SavepointError(f"{file} can't be written", got=str(error)) from error
    return file


def find_kind(file: Path) -> Literal["tar", "zip"]:
    """Return the format of an archive, from its name."""
    if file.name.endswith((".tar.gz", ".tgz")):
        return "tar"
    if file.name.endswith(".zip"):
        return "zip"
    raise SavepointError(
        f"the name {file.name!r} has no suffix of an archive format",
        expected="a name that ends in .tar.gz, .tgz or .zip",
        got=file.suffix or "no suffix",
    )


def _list_packed(savepoint: Savepoint) -> Iterator[tuple[str, Path]]:
    for relative in (MANIFEST, MANIFEST_SUM, *savepoint.manifest.files):
        yield f"{savepoint.manifest.name}/{relative}", savepoint.path / relative


def _pack_tar(savepoint: Savepoint, raw: IO[bytes]) -> None:
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in _list_packed(savepoint):
            about = tarfile.TarInfo(name)
            about.size = path.stat().st_size
            about.mode = 0o644
            with path.open("rb") as stream:
                archive.addfile(about, stream)


def _pack_zip(savepoint: Savepoint, raw: IO[bytes]) -> None:
    with zipfile.ZipFile(raw, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in _list_packed(savepoint):
            about = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            about.compress_type = zipfile.ZIP_DEFLATED
            about.external_attr = (stat.S_IFREG | 0o644) << 16
            about.create_system = 3
            about.file_size = path.stat().st_size
            with path.open("rb") as stream, archive.open(about, "w") as member:
                while block := stream.read(_BLOCK):
                    member.write(block)


def import_archive(file: Path | str, folder: Path | str, limits: Limits = LIMITS) -> Path:
    """Unpack an archive to a new savepoint, and return its folder; on an error nothing is left."""
    file, folder = (Path(strip_scheme(place, "savepoint")) for place in (file, folder))
    kind = find_kind(file)
    if not file.is_file():
        raise SavepointError(f"there is no file {file}", expected="an archive of a savepoint")
    with begin_draft(folder) as draft:
        unpack = _Unpacking(file, draft.folder, limits)
        try:
            with (_open_tar if kind == "tar" else _open_zip)(file, unpack) as members:
                for member in members:
                    unpack.take(member)
        except SavepointError:
            raise
        except _UNREADABLE as error:
            raise unpack.refuse(
                "it can't be unpacked", f"{type(error).__name__}: {error}"
            ) from error
        _check_unpacked(file, draft.folder)
        return draft.publish()


def _check_unpacked(file: Path, folder: Path) -> None:
    """Raise if a folder is not a savepoint, with the archive as the location of the error."""
    try:
        open_savepoint(folder)
    except DamagedSavepointError as error:
        raise DamagedSavepointError(str(file), error.changed, error.missing, error.extra) from None
    except (ForbiddenFileError, ManifestError) as error:
        raise type(error)(
            error.what, where=str(file), expected=error.expected, got=error.got, cure=error.cure
        ) from None
    except SavepointError:
        raise HostileArchiveError(
            f"{file.name} is not an archive of a savepoint",
            where=str(file),
            expected=f"one folder with {MANIFEST} and {MANIFEST_SUM} in it",
            got="neither",
        ) from None


class _Unpacking:
    """The unpacking of one archive, which counts files and bytes, and raises above the limits."""

    def __init__(self, file: Path, folder: Path, limits: Limits) -> None:
        self._file = file
        self._folder = folder
        self._limits = limits
        self._packed = max(1, file.stat().st_size)
        self._bytes = 0
        self._written = 0
        self._members = 0
        self._top: str | None = None
        self._taken: set[str] = set()
        self._spelled: dict[str, str] = {}

    def refuse(self, why: str, got: str, expected: str | None = None) -> HostileArchiveError:
        """Return the error with the reason why an archive is not unpacked."""
        return HostileArchiveError(
            f"{self._file.name} is refused: {why}",
            where=str(self._file),
            expected=expected,
            got=got[:300],
        )

    def count(self, size: int) -> None:
        """Count unpacked bytes; raise above the limits, as with an archive bomb."""
        self._bytes += size
        self._check_size(self._bytes)
        limits = self._limits
        if self._bytes > limits.free_bytes and self._bytes > limits.ratio * self._packed:
            got = f"{self._bytes:,} bytes from {self._packed:,} so far"
            expected = f"at most {limits.ratio} bytes unpacked for one packed"
            raise self.refuse("it grows too much as it is unpacked", got, expected)

    def _check_size(self, size: int) -> None:
        most = self._limits.bytes
        if size > most:
            raise self.refuse("it is too large", f"more than {most:,} bytes unpacked")

    def take(self, member: _Member) -> None:
        """Unpack one member; raise if it is not allowed in a savepoint."""
        self._members += 1
        if self._members > self._limits.files:
            raise self.refuse("it has too many files", f"more than {self._limits.files:,}")
        relative = self._find_place(member)
        if member.stream is None:
            return
        if relative in self._taken:
            raise self.refuse("it has a file twice", member.name)
        self._taken.add(relative)
        place = self._folder / relative
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as out:
            while block := member.stream.read(_BLOCK):
                self._written += len(block)
                self._check_size(self._written)
                out.write(block)

    def _find_place(self, member: _Member) -> str:
        name = member.name
        top, _, relative = name.partition("/")
        fault = find_fault(name.removesuffix("/") if member.stream is None else name)
        if fault is not None:
            raise self.refuse("it has an invalid file name", f"{name!r}: {fault}")
        self._top = self._top or top
        if top != self._top or not re.match(NAME, top) or (member.stream and not relative):
            raise self.refuse(
                "it is not one folder", f"{name!r} beside {self._top!r}", "one folder, a savepoint"
            )
        parts = name.removesuffix("/").split("/")
        for depth in range(1, len(parts) + 1):
            part = "/".join(parts[:depth])
            other = self._spelled.setdefault(part.lower(), part)
            if other != part:
                raise self.refuse("two names differ only by case", f"{other!r} and {part!r}")
        return relative


class _CountedStream:
    """A stream of unpacked bytes, which are counted before they are used."""

    def __init__(self, stream: _Readable, unpacking: _Unpacking) -> None:
        self._stream = stream
        self._unpacking = unpacking

    def read(self, size: int = -1, /) -> bytes:
        block = self._stream.read(_BLOCK if size < 0 else size)
        self._unpacking.count(len(block))
        return block


@contextmanager
def _open_tar(file: Path, unpacking: _Unpacking) -> Iterator[Iterator[_Member]]:
    class Checked(tarfile.TarInfo):
        """A header whose size is checked before its content is read into memory."""

        @classmethod
        def frombuf(cls, *arguments: Any, **options: Any) -> Checked:
            about = super().frombuf(*arguments, **options)
            if about.type in _LONG_HEADERS and about.size > _MOST_HEADER:
                raise unpacking.refuse("a header is too long", f"{about.size:,} bytes")
            return about

    def list_members() -> Iterator[_Member]:
        for about in archive:
            if about.isdir():
                yield _Member(f"{about.name.removesuffix('/')}/", None)
                continue
            if about.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or about.issparse():
                raise unpacking.refuse(
                    "it has a member that is not a regular file",
                    f"{about.name!r}, {_name_type(about)}",
                )
            stream = archive.extractfile(about)
            assert stream is not None, f"{about.name} is a regular file"
            yield _Member(about.name, stream)

    with gzip.open(file, "rb") as packed:
        counted: Any = _CountedStream(packed, unpacking)
        with tarfile.open(fileobj=counted, mode="r|", tarinfo=Checked) as archive:
            yield list_members()


def _name_type(about: tarfile.TarInfo) -> str:
    if about.issym() or about.islnk():
        return f"a link to {about.linkname!r}"
    return "a sparse file" if about.issparse() else "a device or a pipe"


@contextmanager
def _open_zip(file: Path, unpacking: _Unpacking) -> Iterator[Iterator[_Member]]:
    def list_members() -> Generator[_Member, None, None]:
        for about in archive.infolist():
            shape = stat.S_IFMT(about.external_attr >> 16)
            if shape not in (0, stat.S_IFREG, stat.S_IFDIR):
                what = "a link" if shape == stat.S_IFLNK else "a device or a pipe"
                raise unpacking.refuse(
                    "it has a member that is not a regular file", f"{about.filename!r}, {what}"
                )
            if about.orig_filename != about.filename or about.flag_bits & 0x1:
                raise unpacking.refuse(
                    "a name is hidden, or a file is encrypted", repr(about.filename)
                )
            if about.is_dir():
                yield _Member(about.filename, None)
                continue
            with archive.open(about) as stream:
                yield _Member(about.filename, _CountedStream(stream, unpacking))

    with zipfile.ZipFile(file) as archive, closing(list_members()) as members:
        yield members
