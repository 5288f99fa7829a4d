"""Say which impressions of an ad were clicked within ten minutes, and which were not.

A click names the view that it belongs to. A pair is said when the click comes; that nobody clicked is
said ten minutes after the impression, once no click can come any more. Views never meet, so they run
apart, and what a view keeps is let go of at that time. The last click came a minute too late.
"""

from typing import NamedTuple

from anabranch import Event, take
from anabranch.demo import show
from anabranch.joins import interval_join
from anabranch.plan import Plan, Worker
from anabranch.sources import Source


class Impression(NamedTuple):
    time: int
    view: int
    ad: str


class Click(NamedTuple):
    time: int
    view: int


def say(impression: Impression, click: Click | None) -> tuple[str, str, int | None]:
    if click is None:
        return ("ignored", impression.ad, None)
    return ("clicked", impression.ad, click.time - impression.time)


click_through = interval_join(
    Impression, Click, on="view", lower=0, upper=10, how="left", select=say
)

events = [
    Event(Impression(0, view=1, ad="shoes"), "ads", 0),
    Event(Impression(2, view=2, ad="books"), "ads", 1),
    Event(Impression(5, view=3, ad="shoes"), "ads", 2),
    Event(Click(4, view=1), "clicks", 0),
    Event(Click(13, view=2), "clicks", 1),
    Event(Click(15, view=3), "clicks", 2),
]
sources = (Source("ads"), Source("clicks"))
expected = [
    ("clicked", "shoes", 4),
    ("ignored", "books", None),
    ("clicked", "shoes", 10),
]


def follow(*views: int) -> Worker:
    return Worker(*(take(tag, view=view) for tag in click_through.tags for view in views))


plans = {
    "sequential": Plan(Worker(*click_through.tags)),
    "two and one": Plan(Worker(children=(follow(1, 2), follow(3)))),
    "each view apart": Plan(Worker(children=(follow(1), Worker(children=(follow(2), follow(3)))))),
}


def describe(time: int, said: tuple[str, str, int | None]) -> str:
    what, ad, after = said
    return f"at {time}: {what} {ad}" + (f", after {after}" if after else "")


if __name__ == "__main__":
    show(click_through, events, sources, describe)
