"""Feeds of events that need no Spark, and what their sources promise; `Frame` is in `anabranch.spark`."""

from anabranch.eventtime.channels import Source, end_sources
from anabranch.eventtime.clocks import Tick, make_ticks
from anabranch.eventtime.disorder import Estimated
from anabranch.sources.feeds import Feed
from anabranch.sources.files import Files

__all__ = ["Estimated", "Feed", "Files", "Source", "Tick", "end_sources", "make_ticks"]
