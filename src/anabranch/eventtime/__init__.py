"""Event time: watermarks, lateness, windows and triggers, and the ledger of every event."""

from anabranch.eventtime.channels import Channel
from anabranch.eventtime.clocks import Tick, make_ticks
from anabranch.eventtime.windows.calendar_windows import Calendar
from anabranch.eventtime.windows.panes import Fold, Windowing
from anabranch.eventtime.windows.triggers import (
    AfterAll,
    AfterAny,
    AfterCount,
    AfterEach,
    AfterProcessingTime,
    AfterWatermark,
    Always,
    DefaultTrigger,
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
    "AfterAll",
    "AfterAny",
    "AfterCount",
    "AfterEach",
    "AfterProcessingTime",
    "AfterWatermark",
    "Always",
    "Calendar",
    "Channel",
    "CountSliding",
    "CountTumbling",
    "Custom",
    "DefaultTrigger",
    "Fold",
    "Global",
    "Never",
    "OrFinally",
    "Repeatedly",
    "Sessions",
    "Sliding",
    "Tick",
    "Tumbling",
    "Windowing",
    "make_ticks",
]
