"""Golden checkpoints as archives: packed without what a copy does not need, unpacked to another place."""

import gzip
import io
import tarfile
from pathlib import Path

PLACE = Path("/tmp/anabranch-golden")
"""Where golden checkpoints were made. Spark writes whole paths into them; `unpack` writes others."""

FOLDERS = ("run", "run.checkpoint")
LEFT_OUT = ("_lock", "_manifest.jsonl")
"""Who ran it, and sums of files in which paths are about to change."""


def pack(base: Path, archive: Path) -> None:
    """Pack a checkpoint and what it has published; the same files give the same bytes."""
    files = [
        file
        for folder in FOLDERS
        for file in sorted((base / folder).rglob("*"))
        if file.is_file() and file.name not in LEFT_OUT and not file.name.endswith(".crc")
    ]
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for file in files:
            about = tarfile.TarInfo(file.relative_to(base).as_posix())
            about.size = file.stat().st_size
            with file.open("rb") as stream:
                tar.addfile(about, stream)
    with archive.open("wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        packed.write(data.getvalue())


def unpack(archive: Path, base: Path) -> None:
    """Unpack a checkpoint to a place, and let it know that it is there."""
    with tarfile.open(archive) as tar:
        tar.extractall(base, filter="data")
    for file in (base / "run.checkpoint").rglob("*"):
        if file.is_file() and str(PLACE).encode() in (data := file.read_bytes()):
            assert b"\0" not in data, f"{file} is no text"
            file.write_bytes(data.replace(str(PLACE).encode(), str(base).encode()))
