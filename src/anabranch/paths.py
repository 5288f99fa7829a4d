"""Paths: conversion of files and folders to absolute local paths, and checks of them.

Tasks and the driver read and write paths themselves, and each has its own current directory. So a path is
made absolute once, on the driver, and a path on another file system raises an error instead of being
taken as a local name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

from anabranch.errors import InputError

Role = Literal["input", "output", "checkpoint", "savepoint"]
"""The use of a path, for error messages."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_CURES: dict[Role, str] = {
    "input": "copy the files into a local folder; or read them with spark.readStream, and pass "
    "the frame to Frame",
    "output": "write to a local or mounted folder; or write the result frame with a sink of Spark",
    "checkpoint": "use a local folder, or one that is mounted on this machine and its executors",
    "savepoint": "use a local folder, and copy it from there",
}


def strip_scheme(place: str | Path, role: Role) -> str:
    """Return a local path without `file:`; raise if the path is on another file system.

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
    """Return an absolute local path; raise if the path is on another file system."""
    return Path(strip_scheme(place, role)).absolute()


def check_folder(place: str | Path) -> Path:
    """Return the absolute path of an input folder; raise if it is not a folder."""
    path = resolve_path(place, "input")
    if not path.is_dir():
        raise InputError(
            f"there is no folder {str(place)!r}",
            expected="a folder of files of events",
            got="a file" if path.exists() else "nothing of that name",
        )
    return path


def check_output_apart(output: str | Path, inputs: Iterable[str | Path]) -> None:
    """Raise if the output is inside an input folder, where the next run would read it as events."""
    target = resolve_path(output, "output").resolve()
    for place in inputs:
        folder = resolve_path(place, "input").resolve()
        if folder.is_dir() and target.is_relative_to(folder):
            raise InputError(
                f"the output {str(output)!r} is inside the input folder {str(place)!r}",
                expected="an output outside the input folder",
                got=f"{target}, in {folder}",
                cure="choose another output folder; the next run would read this one as events",
            )
