"""The options of a run: the same keywords in `run`, `restore_savepoint` and `rescale`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypedDict

from anabranch.errors import InputError
from anabranch.microbatch.ingest.row_reader import MAX_RECORD_BYTES
from anabranch.microbatch.job.path_choice import Columnar
from anabranch.microbatch.job.speculative_layout import check_mode
from anabranch.speculation.output_changes import Mode


class RunKeywords(TypedDict, total=False):
    """The fields of `RunOptions`, as keywords of a call."""

    shards: int | None
    hot_keys: Iterable[Any]
    columnar: Columnar
    mode: Mode
    max_record_bytes: int


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """The options of a run.

    - `shards`: the number of shards, fixed for a checkpoint. The default is 16. With an early fold of
      Parquet or Arrow files, it is 1 in the forked layout and 4 for windows.
    - `hot_keys`: keys with too much traffic for one core, which all shards fold. Fixed for a checkpoint.
    - `columnar`: "auto" (default), "require" or "never". "auto" takes the columnar path where the program
      allows it, "require" raises if it does not, "never" takes the row path.
    - `mode`: "settled" (default) emits an output once, when it cannot change; "speculative" emits it at once
      and retracts it if it was wrong.
    - `max_record_bytes`: a larger event is rejected (default 1 MiB).
    """

    shards: int | None = None
    hot_keys: tuple[Any, ...] = ()
    columnar: Columnar = "auto"
    mode: Mode = "settled"
    max_record_bytes: int = MAX_RECORD_BYTES

    def __post_init__(self) -> None:
        object.__setattr__(self, "hot_keys", tuple(self.hot_keys))
        check_mode(self.mode)
        if self.shards is not None and (type(self.shards) is not int or self.shards < 1):
            raise InputError(
                "shards is not a number of shards", expected="1 or more", got=repr(self.shards)
            )
        if type(self.max_record_bytes) is not int or self.max_record_bytes < 1:
            raise InputError(
                "max_record_bytes is not a size",
                expected="a whole number of bytes, 1 or more",
                got=repr(self.max_record_bytes),
            )

    def keywords(self) -> RunKeywords:
        """Return the options as keywords of a call."""
        return RunKeywords(
            shards=self.shards, hot_keys=self.hot_keys, columnar=self.columnar, mode=self.mode,
            max_record_bytes=self.max_record_bytes,
        )  # fmt: skip


def read_options(keywords: RunKeywords) -> RunOptions:
    """Return the keywords of a call as options; raise `InputError` on an unknown one."""
    known = RunOptions.__dataclass_fields__
    for name in keywords:
        if name not in known:
            raise InputError(
                f"a run has no option {name!r}", expected=f"one of {', '.join(known)}", got=name
            )
    return RunOptions(**keywords)  # type: ignore[arg-type]  # `hot_keys` becomes a tuple
