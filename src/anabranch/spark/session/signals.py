"""Signals: Ctrl-C and SIGTERM while Spark runs.

On Ctrl-C, PySpark calls the JVM during a call that is in progress. Py4j can't do that, and prints long
errors. Here a signal is handled when no call is in progress, or ends the JVM without a call. A second signal
kills at once.
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
"""The time that a query has to stop; after it, the handler continues without it."""
JVM_STOP_S = 5.0
"""The time that the JVM has to clean up; after it, it is killed."""

MARK = b"anabranch: the output of the JVM is forwarded again\n"

Handler = Callable[[int, FrameType | None], Any] | int | None


@dataclass
class Jvm:
    """The JVM of this process, the pipe that it prints to, and how often that was muted and unmuted."""

    process: "Popen[bytes] | None" = None
    pipe: int | None = None
    muted: int = 0
    unmuted: int = 0

    def mute(self) -> None:
        """Drop the output of the JVM."""
        self.muted += 1

    def unmute(self) -> None:
        """Forward the output of the JVM again, except for that which is already in the pipe."""
        if self.pipe is None:
            self.unmuted += 1
        else:
            os.write(self.pipe, MARK)

    def is_forwarded(self, line: bytes) -> bool:
        """Return whether a line from the pipe is forwarded; count it if it is the mark."""
        if line == MARK:
            self.unmuted += 1
        return line != MARK and self.muted == self.unmuted

    def end(self) -> None:
        """Stop the JVM, so that it can clean up; kill it if that takes long."""
        if self.process is None:
            return
        if self.process.stdin is not None:
            self.process.stdin.close()
        try:
            self.process.wait(JVM_STOP_S)
        except TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """Kill the JVM, from a signal handler; its Python workers end with it."""
        if self.process is not None:
            self.process.kill()
            # Not `Popen.wait`: the signal may have arrived during a call of it, which holds a lock.
            with suppress(ChildProcessError):
                os.waitpid(self.process.pid, 0)


JVM = Jvm()
"""The only JVM of this process: it serves all sessions, one after the other."""


@contextmanager
def hold_signals(stop: Callable[[], Any]) -> Iterator[None]:
    """Delay a signal until this context is left; then call `stop`, and raise the signal again."""
    received: list[int] = []
    loud = logging.root.manager.disable

    def note(number: int) -> None:
        received.append(number)
        _mute()

    try:
        with _handle_signals(_handle_once(note)):
            yield
    except Exception:
        if not received:  # Else it follows from the signal, which a JVM in the same group gets too.
            raise
    if received:
        with _handle_signals(_kill):
            _stop(stop)
        logging.disable(loud)
        JVM.unmute()
        signal.raise_signal(received[0])


@contextmanager
def end_on_signals() -> Iterator[None]:
    """On a signal, end the code in this context and the JVM without output; then raise `Stopped`."""
    received: list[int] = []

    def leave(number: int) -> None:
        received.append(number)
        _mute()
        raise Stopped(number)

    with _handle_signals(_handle_once(leave)):
        try:
            yield
        except KeyboardInterrupt:
            JVM.end()
            raise
        except Exception:
            if not received:
                raise
            # A clean-up called a JVM that got the signal too.
            JVM.end()
            raise Stopped(received[0]) from None


@contextmanager
def keep_handlers() -> Iterator[None]:
    """Restore the handler of Ctrl-C that a Spark context replaces, unless it was Python's or Spark's own."""
    before = signal.getsignal(signal.SIGINT)
    usual = before is signal.default_int_handler or _is_sparks(before)
    try:
        yield
    finally:
        if not usual and signal.getsignal(signal.SIGINT) is not before:
            signal.signal(signal.SIGINT, before)


@contextmanager
def _handle_signals(handler: Handler) -> Iterator[None]:
    """Set a handler of signals in this context, except for signals that are ignored, as under nohup."""
    before = {number: signal.signal(number, handler) for number in _list_handled()}
    try:
        yield
    finally:
        for number, was in before.items():
            signal.signal(number, was)


def _handle_once(react: Callable[[int], None]) -> Callable[[int, FrameType | None], None]:
    """Return a handler that calls `react` on the first signal and kills on the second, however close."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        # The second may interrupt the handler before its first line has run; its frame shows that.
        if received or (frame is not None and frame.f_code is handle.__code__):
            _kill(number, frame)
        else:
            received.append(number)
            react(number)

    return handle


def _list_handled() -> list[signal.Signals]:
    # Only the main thread receives signals, and only it may set handlers.
    if threading.current_thread() is not threading.main_thread():
        return []
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def _is_sparks(handler: Handler) -> bool:
    return getattr(handler, "__module__", None) == "pyspark.core.context"


def _mute() -> None:
    """Mute the JVM, py4j and PySpark's accumulators, which would print errors about interrupted calls."""
    JVM.mute()
    logging.disable()
    spark: Any = sys.modules.get("pyspark.core.context")  # A signal handler must not import.
    context = None if spark is None else spark.SparkContext._active_spark_context
    server = getattr(context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda request, address: None


def _stop(stop: Callable[[], Any]) -> None:
    def run() -> None:
        with suppress(Exception):
            stop()

    # In a thread, because it may never end.
    thread = threading.Thread(target=run, name="anabranch-stop", daemon=True)
    thread.start()
    thread.join(STOP_S)


def _kill(number: int, frame: FrameType | None) -> None:
    JVM.kill()
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
