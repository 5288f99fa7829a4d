"""Windows, triggers, and `aggregate`, which builds a program from both."""

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
from anabranch.query.window_aggregates import aggregate
from anabranch.query.window_outputs import Missed, Result

__all__ = [
    "AfterAll",
    "AfterAny",
    "AfterCount",
    "AfterEach",
    "AfterProcessingTime",
    "AfterWatermark",
    "Always",
    "Calendar",
    "CountSliding",
    "CountTumbling",
    "Custom",
    "DefaultTrigger",
    "Fold",
    "Global",
    "Missed",
    "Never",
    "OrFinally",
    "Repeatedly",
    "Result",
    "Sessions",
    "Sliding",
    "Tumbling",
    "Windowing",
    "aggregate",
]
