"""Event time: frontiers, lateness, windows and triggers, and the ledger of every event."""

from anabranch.eventtime.channels import Source
from anabranch.eventtime.clocks import Tick, make_ticks
from anabranch.eventtime.windows.calendar_windows import Calendar
from anabranch.eventtime.windows.panes import Fold, Windowing
from anabranch.eventtime.windows.triggers import (
    AfterCount,
    AfterProcessingTime,
    AllOf,
    Always,
    AnyOf,
    AtFrontier,
    Default,
    InTurn,
    Never,
    OrFinally,
    Repeatedly,
)
from anabranch.eventtime.windows.window_types import (
    CountSliding,
    CountTumbling,
    Custom,
    Global,
    Sessions,
    Sliding,
    Tumbling,
)

__all__ = [
    "AfterCount",
    "AfterProcessingTime",
    "AllOf",
    "Always",
    "AnyOf",
    "AtFrontier",
    "Calendar",
    "CountSliding",
    "CountTumbling",
    "Custom",
    "Default",
    "Fold",
    "Global",
    "InTurn",
    "Never",
    "OrFinally",
    "Repeatedly",
    "Sessions",
    "Sliding",
    "Source",
    "Tick",
    "Tumbling",
    "Windowing",
    "make_ticks",
]
