"""Report which impressions of an ad were clicked within ten minutes, and which were not.

A click has the number of the view that it belongs to. A pair is emitted on the click; an impression without
a click is emitted ten minutes later, when no click can arrive any more. Views are independent, so they run in
parallel, and the state of a view is removed at that time. The last click is a minute too late.
"""

from typing import NamedTuple

from anabranch import Event, take
from anabranch.demo import show
from anabranch.joins import interval_join
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel


class Impression(NamedTuple):
    time: int
    view: int
    ad: str


class Click(NamedTuple):
    time: int
    view: int


def label(impression: Impression, click: Click | None) -> tuple[str, str, int | None]:
    if click is None:
        return ("ignored", impression.ad, None)
    return ("clicked", impression.ad, click.time - impression.time)


click_through = interval_join(
    Impression, Click, on="view", lower=0, upper=10, how="left", select=label
)

events = [
    Event(Impression(0, view=1, ad="shoes"), "ads", 0),
    Event(Impression(2, view=2, ad="books"), "ads", 1),
    Event(Impression(5, view=3, ad="shoes"), "ads", 2),
    Event(Click(4, view=1), "clicks", 0),
    Event(Click(13, view=2), "clicks", 1),
    Event(Click(15, view=3), "clicks", 2),
]
channels = (Channel("ads"), Channel("clicks"))
expected = [
    ("clicked", "shoes", 4),
    ("ignored", "books", None),
    ("clicked", "shoes", 10),
]


def follow(*views: int) -> PlanNode:
    return PlanNode(
        *(take(event_type, view=view) for event_type in click_through.event_types for view in views)
    )


plans = {
    "sequential": Plan(PlanNode(*click_through.event_types)),
    "two and one": Plan(PlanNode(children=(follow(1, 2), follow(3)))),
    "each view apart": Plan(
        PlanNode(children=(follow(1), PlanNode(children=(follow(2), follow(3)))))
    ),
}


def describe(time: int, output: tuple[str, str, int | None]) -> str:
    what, ad, after = output
    return f"at {time}: {what} {ad}" + (f", after {after}" if after else "")


if __name__ == "__main__":
    show(click_through, events, channels=channels, line=describe)
