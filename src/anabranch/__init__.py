"""Anabranch: stateful stream programs that give the sequential answer, however they run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError
from anabranch.model.dependence import Dependence, depends
from anabranch.model.events import FOREVER, Event, Heartbeat, Malformed
from anabranch.model.handlers import on
from anabranch.model.program import ForkJoin, Program, State
from anabranch.model.slices import Shard, Slice, Slices, take
from anabranch.model.targets import load
from anabranch.model.values.event_times import EventTime
from anabranch.model.values.maps import Map

if TYPE_CHECKING:
    from anabranch.program_runs import run

__version__ = "0.1.0"

__all__ = [
    "FOREVER",
    "AnabranchError",
    "Dependence",
    "Event",
    "EventTime",
    "ForkJoin",
    "Heartbeat",
    "Malformed",
    "Map",
    "Program",
    "Shard",
    "Slice",
    "Slices",
    "State",
    "depends",
    "load",
    "on",
    "run",
    "take",
]


def __getattr__(name: str) -> Any:
    if name != "run":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # Read when it is first used: what it needs would double the cost of the import.
    from anabranch.program_runs import run

    return run


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
