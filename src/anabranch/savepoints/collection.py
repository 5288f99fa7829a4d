"""Collections: folders of savepoints, with the latest one, and deletion of old ones."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from anabranch.paths import strip_scheme
from anabranch.savepoints.file_names import MANIFEST, MANIFEST_SUM
from anabranch.savepoints.folders import (
    NoSavepointError,
    Savepoint,
    list_files,
    open_savepoint,
)
from anabranch.savepoints.manifest import SavepointError

LATEST = "latest"
"""The name that refers to the newest savepoint; no savepoint can have it."""


@dataclass(frozen=True)
class SavepointCollection:
    """A folder of savepoints, each under the name of its folder."""

    root: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "root", Path(strip_scheme(self.root, "savepoint")))

    def list_savepoints(self) -> tuple[list[Savepoint], dict[str, SavepointError]]:
        """Return the savepoints, oldest first, and those that can't be opened, with the reason.

        Only manifests are read. Other files and folders are ignored.
        """
        if not self.root.is_dir():
            raise NoSavepointError(
                f"there is no folder {self.root}", expected="a folder with savepoints in it"
            )
        found: list[Savepoint] = []
        broken: dict[str, SavepointError] = {}
        for path in sorted(self.root.iterdir()):
            if path.name.startswith(".") or not path.is_dir():
                continue
            try:
                found.append(open_savepoint(path, verify=False))
            except NoSavepointError:
                continue
            except SavepointError as error:
                broken[path.name] = error
        return sorted(found, key=_find_age), broken

    def find(self, name: str) -> Path:
        """Return the folder of a savepoint, by name, or of the newest one."""
        if name != LATEST:
            if not (self.root / name).is_dir():
                raise NoSavepointError(
                    f"there is no savepoint {name!r} in {self.root}",
                    expected=", ".join(self._list_names()) or "one that exists; there is none",
                    got=name,
                )
            return self.root / name
        found, _ = self.list_savepoints()
        if not found:
            raise NoSavepointError(f"there is no savepoint in {self.root}", expected="one or more")
        return found[-1].path

    def delete(self, name: str) -> Path:
        """Delete a savepoint; raise if it is not one, or has files that are not in its manifest."""
        path = self.find(name)
        if path.is_symlink():
            raise SavepointError(f"{path} is a link", expected="the savepoint's own folder")
        manifest = open_savepoint(path, verify=False).manifest
        plain, strange = list_files(path)
        extra = sorted((plain | strange) - {*manifest.files, MANIFEST, MANIFEST_SUM})
        if extra:
            raise SavepointError(
                f"{path} has files that do not belong to the savepoint",
                expected="only the files in its manifest",
                got=", ".join(extra[:10]),
                cure="move them elsewhere first",
            )
        # One rename, so that there is never half a savepoint; the name is that of an abandoned draft.
        going = path.with_name(f".{path.name}.draft-{secrets.token_hex(4)}")
        path.rename(going)
        shutil.rmtree(going)
        return path

    def keep(self, count: int) -> list[str]:
        """Delete all but the newest `count` savepoints; return the names of the deleted ones."""
        if count < 1:
            raise SavepointError(
                "the number of savepoints to keep is too small",
                expected="1 or more",
                got=str(count),
            )
        found, _ = self.list_savepoints()
        names = [savepoint.path.name for savepoint in found[:-count]]
        for name in names:
            self.delete(name)
        return names

    def _list_names(self) -> list[str]:
        return [savepoint.path.name for savepoint in self.list_savepoints()[0]]


def find_savepoint(path: Path | str) -> Path:
    """Return the folder of a path; `FOLDER/latest` is the newest savepoint in a folder."""
    place = Path(strip_scheme(path, "savepoint"))
    return SavepointCollection(place.parent).find(LATEST) if place.name == LATEST else place


def _find_age(savepoint: Savepoint) -> tuple[datetime, str]:
    return datetime.fromisoformat(savepoint.manifest.made_at), savepoint.path.name
