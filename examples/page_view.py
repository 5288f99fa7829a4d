"""Join page views with the data of the page at that time.

A view reads the entry of its page; an update changes it and emits the old value. Updates of a page are
in order with each other and with its views; views are independent, also those of one page. A join
keyed by page would put a popular page on one core. Here every node that processes views of a page has a
copy of its entry (`Replicated`), which only an update can change.
"""

from typing import NamedTuple

from anabranch import Event, Program, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import MapOf, Replicated


class View(NamedTuple):
    time: int
    page: int


class Update(NamedTuple):
    time: int
    page: int
    zip: int


page_view = Program(
    on(View, output=lambda known, view: ("view", view.page, known)),
    on(
        Update,
        output=lambda known, update: ("update", update.page, known),
        update=lambda known, update: update.zip,
    ),
    depends(Update, View, Update, same="page"),
    state=MapOf(Replicated(), by="page"),
)

events = [
    Event(View(1, page=1), "v1", 0),
    Event(Update(2, page=1, zip=10001), "updates", 0),
    Event(View(3, page=1), "v2", 0),
    Event(View(4, page=2), "v1", 1),
    Event(Update(5, page=2, zip=10002), "updates", 1),
    Event(View(6, page=2), "v2", 1),
    Event(Update(7, page=1, zip=10003), "updates", 2),
    Event(View(8, page=1), "v1", 2),
]
channels = (Channel("v1"), Channel("v2"), Channel("updates"))
expected = [
    ("view", 1, None),
    ("update", 1, None),
    ("view", 1, 10001),
    ("view", 2, None),
    ("update", 2, None),
    ("view", 2, 10002),
    ("update", 1, 10001),
    ("view", 1, 10003),
]

page_1, page_2 = (PlanNode(take(View, page=n), take(Update, page=n)) for n in (1, 2))
v1, v2 = (PlanNode(take(View, channel=name)) for name in ("v1", "v2"))
hot_v1, hot_v2 = (PlanNode(take(View, page=1, channel=name)) for name in ("v1", "v2"))
plans = {
    "sequential": Plan(PlanNode(View, Update)),
    "by page": Plan(PlanNode(children=(page_1, page_2))),
    "by server": Plan(PlanNode(Update, children=(v1, v2))),
    "a hot page": Plan(
        PlanNode(children=(PlanNode(take(Update, page=1), children=(hot_v1, hot_v2)), page_2))
    ),
}


def describe(time: int, output: tuple[str, int, int]) -> str:
    kind, page, known = output
    return f"at {time}: {kind:<6} of page {page}, known: {known}"


if __name__ == "__main__":
    show(page_view, events, channels=channels, line=describe)
