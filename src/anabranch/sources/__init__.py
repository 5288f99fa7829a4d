"""Sources of events that need no Spark, and their channels; `Frame` is in `anabranch.spark`."""

from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.clocks import Tick, make_ticks
from anabranch.eventtime.disorder import Estimated
from anabranch.sources.files import Files
from anabranch.sources.memory_tables import InMemory
from anabranch.sources.source_options import Source

__all__ = [
    "Channel",
    "Estimated",
    "Files",
    "InMemory",
    "Source",
    "Tick",
    "end_channels",
    "make_ticks",
]
