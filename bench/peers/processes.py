"""Processes: run a job with a time cap, and watch the memory and the cores that its tree takes.

Memory is the sum of resident pages over the tree, sampled, so what processes share is counted for
each of them. It is read from `/proc`; where there is none, memory and cores are left blank.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

SAMPLE_S = 0.2
_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(frozen=True)
class Watched:
    """The output of a process, and its cost."""

    lines: list[str]
    log: str
    code: int
    wall_s: float
    is_cut_off: bool
    peak_mb: float | None
    cpu_s: float | None
    other_cores: float | None


@dataclass(frozen=True)
class Usage:
    """A process: its parent, what it holds, and the time it has run."""

    parent: int
    resident: int
    cpu_s: float


def watch(command: list[str], variables: Mapping[str, str], cap_s: float, log: Path) -> Watched:
    """Run a command to its end or to the cap; its tree is ended with it."""
    started, busy = time.time(), _read_busy()
    peak, spent = 0, dict[int, float]()
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=subprocess.STDOUT,
            env={**variables, "BENCH_STARTED": repr(started)},
            start_new_session=True,
        )
        is_cut_off = False
        try:
            while process.poll() is None and not is_cut_off:
                tree = list_tree(process.pid)
                peak = max(peak, sum(usage.resident for usage in tree.values()))
                spent |= {number: usage.cpu_s for number, usage in tree.items()}
                is_cut_off = time.time() - started > cap_s
                time.sleep(SAMPLE_S)
            wall_s = time.time() - started
        finally:
            _end(process)
    text = log.read_text(encoding="utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line.startswith(("result ", "partial "))]
    ours = sum(spent.values())
    others = None if busy is None else max(0.0, ((_read_busy() or busy) - busy - ours) / wall_s)
    return Watched(
        lines,
        text,
        process.returncode,
        wall_s,
        is_cut_off,
        peak / 1e6 if peak else None,
        ours or None,
        None if others is None else round(others, 2),
    )


def stop_cleanly() -> None:
    """Let a bench that is stopped take its jobs with it: they are sessions of their own."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def list_tree(root: int) -> dict[int, Usage]:
    """Return a process and all its descendants."""
    found = _list_processes()
    tree: dict[int, Usage] = {}
    fresh = {root} & found.keys()
    while fresh:
        tree |= {number: found[number] for number in fresh}
        fresh = {n for n, usage in found.items() if usage.parent in fresh and n not in tree}
    return tree


def _list_processes() -> dict[int, Usage]:
    found = {}
    for entry in _PROC.glob("[0-9]*/stat"):
        try:
            text = entry.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # It has ended since.
        # The name stands in brackets and may hold anything, brackets too.
        fields = text.rpartition(")")[2].split()
        usage = Usage(
            int(fields[1]), int(fields[21]) * _PAGE, (int(fields[11]) + int(fields[12])) / _TICKS
        )
        found[int(entry.parent.name)] = usage
    return found


def _read_busy() -> float | None:
    """Return the seconds that all cores of the machine have been busy."""
    try:
        first = (_PROC / "stat").read_text(encoding="ascii").splitlines()[0]
    except OSError:
        return None
    user, nice, system, _, _, irq, soft, steal, *_ = (int(field) for field in first.split()[1:])
    return (user + nice + system + irq + soft + steal) / _TICKS


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a job's whole session: a JVM outlives the Python that started it."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
