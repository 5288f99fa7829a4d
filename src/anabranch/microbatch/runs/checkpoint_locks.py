"""Locks: a checkpoint belongs to one driver at a time."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anabranch.errors import AnabranchError, InputError
from anabranch.microbatch.runs.ownership import LOCK, PATIENCE_S


class BusyError(AnabranchError, RuntimeError):
    """Another driver runs a query on this checkpoint; no query was started."""


class Lock:
    """The lock of this driver on a checkpoint, until it is released or the process ends."""

    def __init__(self, checkpoint: Path, *, patience_s: float = PATIENCE_S) -> None:
        try:
            checkpoint.mkdir(parents=True, exist_ok=True)
            self._file = os.open(checkpoint / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise InputError(
                f"the checkpoint {checkpoint} can't be written",
                expected="a folder that this user may write to",
                got=str(error),
            ) from error
        try:
            self._wait(checkpoint, time.monotonic() + patience_s)
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, _name_driver().encode(), 0)
        except BaseException:
            os.close(self._file)
            raise

    def release(self) -> None:
        """Release the lock."""
        os.close(self._file)

    def release_after(
        self, wait_for_end: Callable[[], Any], finish: Callable[[], None] = lambda: None
    ) -> None:
        """Release the lock after `wait_for_end` has returned or raised, and then `finish`."""

        def wait() -> None:
            with contextlib.suppress(Exception):
                wait_for_end()
            with contextlib.suppress(Exception):  # The lock must be released in any case.
                finish()
            self.release()

        threading.Thread(target=wait, name="anabranch-lock", daemon=True).start()

    def _wait(self, checkpoint: Path, deadline: float) -> None:
        while not _try_lock(self._file):
            holder = os.pread(self._file, 200, 0).decode("utf-8", "replace")
            # A query of this process that has just ended is about to release it.
            if holder != _name_driver() or time.monotonic() > deadline:
                mine = holder == _name_driver()
                raise BusyError(
                    f"a query is running on the checkpoint {checkpoint}",
                    expected="one driver for a checkpoint",
                    got="a query of this process" if mine else holder or "another process",
                    cure="stop that query, or give this one a checkpoint and a folder of its own",
                )
            time.sleep(0.05)


def _try_lock(file: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Not on this system: Spark detects two drivers, though late.
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name_driver() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"
