"""Interruption: Ctrl-C and SIGTERM while Spark works.

PySpark answers Ctrl-C with a call to the JVM in the middle of the call that is under way. Py4j can't do that,
and says so at length. Here a signal waits until no call is under way, or ends the JVM without a call. A second
one does not wait for anything.
"""

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from subprocess import Popen, TimeoutExpired
from types import FrameType
from typing import Any

from anabranch.errors import Stopped

SIGNALS = (signal.SIGINT, signal.SIGTERM)
STOP_S = 10.0
"""How long a query may take to stop; then it is left to itself."""
FAREWELL_S = 5.0
"""How long a JVM may take to tidy up; then it is killed."""

MARK = b"anabranch: from here on it is of interest again\n"

Handler = Callable[[int, FrameType | None], Any] | int | None


@dataclass
class Jvm:
    """The JVM of this process, the pipe that it prints to, and whether that is of interest."""

    process: "Popen[bytes] | None" = None
    pipe: int | None = None
    hushed: int = 0
    heard: int = 0

    def hush(self) -> None:
        """Let what it prints be dropped."""
        self.hushed += 1

    def hear(self) -> None:
        """Let what it prints from now on be passed on again; what is in the pipe already is not."""
        if self.pipe is None:
            self.heard += 1
        else:
            os.write(self.pipe, MARK)

    def pass_on(self, line: bytes) -> bool:
        """Say whether a line from the pipe is of interest."""
        if line == MARK:
            self.heard += 1
        return line != MARK and self.hushed == self.heard

    def end(self) -> None:
        """Let it stop what runs and tidy up, or kill it if that takes long."""
        if self.process is None:
            return
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(FAREWELL_S)
        except TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """Kill it, from a handler of signals; its Python workers end with it."""
        if self.process is not None:
            self.process.kill()
            # Not its own `wait`: a signal may have come amid one, which holds a lock.
            with suppress(ChildProcessError):
                os.waitpid(self.process.pid, 0)


JVM = Jvm()
"""There is one at most: it serves all sessions of a process, one after the other."""


@contextmanager
def hold_signals(stop: Callable[[], Any]) -> Iterator[None]:
    """Let a signal wait until a call is over; then stop, and handle it as it would have been."""
    came: list[int] = []
    loud = logging.root.manager.disable

    def note(number: int) -> None:
        came.append(number)
        _hush()

    try:
        with _handle_signals(_heed_once(note)):
            yield
    except Exception:
        if not came:  # Or else it is a consequence: a JVM in our group gets the signal too.
            raise
    if came:
        with _handle_signals(_kill):
            _stop(stop)
        logging.disable(loud)
        JVM.hear()
        signal.raise_signal(came[0])


@contextmanager
def end_on_signals() -> Iterator[None]:
    """Let a signal end what runs, and the JVM, in silence; then raise `Stopped`."""
    came: list[int] = []

    def leave(number: int) -> None:
        came.append(number)
        _hush()
        raise Stopped(number)

    with _handle_signals(_heed_once(leave)):
        try:
            yield
        except KeyboardInterrupt:
            JVM.end()
            raise
        except Exception:
            if not came:
                raise
            # Who tidied up called a JVM that got the signal too.
            JVM.end()
            raise Stopped(came[0]) from None


@contextmanager
def keep_handlers() -> Iterator[None]:
    """Undo that a Spark context handles Ctrl-C, if somebody but Python or another one did before."""
    before = signal.getsignal(signal.SIGINT)
    usual = before is signal.default_int_handler or _is_sparks(before)
    try:
        yield
    finally:
        if not usual and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _handle_signals(handler: Handler) -> Iterator[None]:
    """Handle signals for a while, but for those that are ignored, as under nohup."""
    before = {number: signal.signal(number, handler) for number in _list_heeded()}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def _heed_once(heed: Callable[[int], None]) -> Callable[[int, FrameType | None], None]:
    """Make a handler that heeds the first signal; the second kills, even if it comes right behind the first."""
    came: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        # The second may be handled before the first line for the first one runs; then its frame tells.
        if came or (frame is not None and frame.f_code is handle.__code__):
            _kill(number, frame)
        else:
            came.append(number)
            heed(number)

    return handle


def _list_heeded() -> list[signal.Signals]:
    # Only the main thread hears of signals, and only it may say what they do.
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def _is_sparks(handler: Handler) -> bool:
    return getattr(handler, "__module__", None) == "pyspark.core.context"


def _hush() -> None:
    """Silence all who would tell of calls that are cut off: the JVM, py4j, and PySpark's accumulators."""
    JVM.hush()
    logging.disable()
    spark: Any = sys.modules.get("pyspark.core.context")  # A signal is no time to import anything.
    context = None if spark is None else spark.SparkContext._active_spark_context
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _stop(stop: Callable[[], Any]) -> None:
    def run() -> None:
        with suppress(Exception):
            stop()

    # In a thread, for it may never end.
    thread = threading.Thread(target=run, name="anabranch-stop", daemon=True)
    thread.start()
    thread.join(STOP_S)


def _kill(number: int, frame: FrameType | None) -> None:
    JVM.kill()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
