"""Paths: where a file or folder is, as one absolute local path, or why it can't be used.

Tasks and the driver read and write paths by themselves, and each has a current folder of its own. So a path
is made absolute once, on the driver, and a place on another file system is refused instead of being taken
for a local name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from anabranch.errors import InputError

Role = Literal["input", "output", "checkpoint", "savepoint"]
"""What a path is for; an error names it."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_CURES: dict[Role, str] = {
    "input": "copy the files into a local folder; or read them with spark.readStream, and give "
    "the frame to Frame",
    "output": "write to a local or mounted folder; or write the result frame with a sink of Spark's",
    "checkpoint": "name a local folder, or one that is mounted on this machine and its workers",
    "savepoint": "name a local folder, and copy it from there",
}


def strip_scheme(place: str | Path, role: Role) -> str:
    """Return a place as a local path, without `file:`; refuse a place on another file system.

    >>> strip_scheme("a/b", "input"), strip_scheme("file:///c%20d", "input")
    ('a/b', '/c d')
    """
    text = str(place)
    found = _SCHEME.match(text)
    if found is None:
        return text
    scheme, rest = found[1].lower(), text[found.end() :]
    host, path = "", rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        path = slash + path
    if scheme == "file" and host in ("", "localhost") and path:
        return unquote(path)
    raise InputError(
        f"the {role} {text} is not on a file system of this machine",
        expected="a local path, or file:///…",
        got=f"the scheme {scheme}:" if scheme != "file" else f"the host {host}",
        cure=_CURES[role],
    )


def resolve_path(place: str | Path, role: Role) -> Path:
    """Return a place as an absolute local path; refuse a place on another file system."""
    return Path(strip_scheme(place, role)).absolute()


def check_folder(place: str | Path) -> Path:
    """Return the absolute path of an input folder; refuse what is none."""
    path = resolve_path(place, "input")
    if not path.is_dir():
        raise InputError(
            f"there is no folder {str(place)!r}",
            expected="a folder of files of events",
            got="a file" if path.exists() else "nothing of that name",
        )
    return path


def check_output_apart(output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Refuse an output that lies in an input folder: the next run would read it as events."""
    target = resolve_path(output, "output").resolve()
    for place in inputs:
        folder = resolve_path(place, "input").resolve()
        if folder.is_dir() and target.is_relative_to(folder):
            raise InputError(
                f"the output {str(output)!r} lies in the input folder {str(place)!r}",
                expected="an output beside the input folder",
                got=f"{target}, in {folder}",
                cure="name another output; the next run would read it as events",
            )
