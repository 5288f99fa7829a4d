"""Views of a checkpoint at its last committed batch, for reading, also while a run writes to it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from anabranch.errors import InputError
from anabranch.local.page_log import Commit, PagePlace, PlannedBatch, list_logs, recover
from anabranch.microbatch.inspect.stored_state import Address
from anabranch.microbatch.store.state_store import KeptStore, unseal

_ROLES = ("shard", "root", "deferred_outputs")


class LogView:
    """The stores of a checkpoint at its last committed batch; `plan` is a batch that was begun after it."""

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.path = path
        found = recover(file, path)
        if found.commit is None:
            raise InputError(
                f"{path.parent} has no committed batch yet",
                expected="the checkpoint of an embedded run after its first batch",
                got="a run that has committed nothing",
            )
        self.commit: Commit = found.commit
        self.plan: PlannedBatch | None = found.plan
        self.stores: dict[Address, KeptStore] = {}
        groups: dict[tuple[str, int], dict[str, PagePlace]] = {}
        for name, place in found.places.items():
            owner, _, rest = name.partition("/")
            role, _, digits = owner.rpartition(" ")
            groups.setdefault((role, int(digits)), {})[rest] = place
        for (role, number), places in sorted(groups.items()):
            for part in _split(places):
                values = _Values(file, f"{role} {number}", part, places)
                self.stores[Address(part or role, number)] = KeptStore(values, values.owner)

    def read_all(self) -> int:
        """Read every page, and compare it with its checksum; return their number."""
        pages = [store.values[name] for store in self.stores.values() for name in store.values]
        return len(pages)


def _split(places: Mapping[str, PagePlace]) -> list[str]:
    """Return the parts of a store that operators share, by role: with one shard, that of the shard has its root."""
    parts = {name.partition(":")[0] for name in places if ":" in name}
    return sorted(parts & {*_ROLES}) or [""]


class _Values(Mapping[str, bytes]):
    """The values of a store, read from the log when they are used."""

    def __init__(
        self, file: BinaryIO, owner: str, part: str, places: Mapping[str, PagePlace]
    ) -> None:
        self._file = file
        self.owner = owner
        self._prefix = f"{part}:" if part else ""
        skip = len(self._prefix)
        self._places = {
            name[skip:]: place for name, place in places.items() if name.startswith(self._prefix)
        }

    def __getitem__(self, name: str) -> bytes:
        place = self._places[name]
        data = os.pread(self._file.fileno(), place.size, place.start)
        return unseal(self._prefix + name, data, self.owner)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@contextmanager
def open_view(checkpoint: Path) -> Iterator[LogView]:
    """Open a checkpoint at its last committed batch. What the view has read does not change."""
    file = _open_last(checkpoint)
    try:
        yield LogView(Path(file.name), file)
    finally:
        file.close()


def _open_last(checkpoint: Path) -> BinaryIO:
    while True:
        logs = list_logs(checkpoint)
        if not logs:
            inner = checkpoint / "_checkpoint"
            raise InputError(
                f"{checkpoint} is not the checkpoint of an embedded run",
                expected="a folder with pages-NNNNNN.log",
                got="a folder without it" if checkpoint.is_dir() else "no folder",
                cure=f"name {inner}" if list_logs(inner) else None,
            )
        try:
            return logs[max(logs)].open("rb", buffering=0)
        except FileNotFoundError:
            continue  # The run has replaced it meanwhile.
