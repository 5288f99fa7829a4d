"""Signals that stop a command: Ctrl-C and SIGTERM.

Signals belong to the process, so those that were received are kept in this module.
"""

from __future__ import annotations

import signal

from anabranch.errors import Stopped

RECEIVED: list[int] = []
"""The numbers of the signals that were received."""


def raise_on_signals() -> None:
    """Raise `Stopped` in the main thread on Ctrl-C and SIGTERM."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # As under nohup.
            signal.signal(number, _stop)


def check_signals() -> None:
    """Raise `Stopped` if a signal was received.

    Python ignores an exception that is raised in a callback, as when a signal arrives during an import.
    """
    if RECEIVED:
        raise Stopped(RECEIVED[0])


def _stop(number: int, frame: object) -> None:
    RECEIVED.append(number)
    raise Stopped(number)
