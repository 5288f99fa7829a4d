"""Report trending words every hour, and the counts of a word on request.

There are two streams: the words that people post, and the headlines that portals are about to show. A headline
requests its word, and gets how often it was posted in this hour and in the last. Words are counted in
parallel, in any order, even those of one word; a headline waits for its own word only; the hour waits for all.
In other stream engines a key is on one core, so a busy word is limited by that core.
"""

from typing import Any, NamedTuple

from anabranch import Event, Map, Program, Shard, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import Count, MapOf, Struct, Sum

TOP = 2


class Word(NamedTuple):
    time: int
    word: str


class Headline(NamedTuple):
    time: int
    word: str
    portal: str


class Hour(NamedTuple):
    time: int


posts = Struct(now=Count(), before=Sum())


def is_trending(known: Any) -> bool:
    return bool(known.now >= 3 and known.now >= 2 * known.before)


def answer(known: Any, headline: Headline) -> tuple[str, str, int, int, bool]:
    return headline.portal, headline.word, known.now, known.before, is_trending(known)


def list_trending(words: Map[str, Any], hour: Hour) -> tuple[str, tuple[tuple[str, int], ...]]:
    rising = [
        (word, known.now - known.before) for word, known in words.items() if is_trending(known)
    ]
    return "hour", tuple(sorted(rising, key=lambda pair: (-pair[1], pair[0]))[:TOP])


def turn(words: Map[str, Any], hour: Hour) -> Map[str, Any]:
    """Make this hour the last one; remove words that were not posted in it."""
    return Map(
        {word: posts.init._replace(before=known.now) for word, known in words.items() if known.now}
    )


trending_words = Program(
    on(Word, update=lambda known, posted: known._replace(now=known.now + 1)),
    on(Headline, output=answer),
    on(Hour, output=list_trending, update=turn),
    depends(Headline, Word, same="word"),
    depends(Hour, Word, Headline, Hour),
    state=MapOf(posts, by="word"),
)

# The posts of two networks, with their times: in the first hour it rains, in the second a goal is scored.
posted = {
    "birds": [(5, "rain"), (11, "rain"), (20, "goal"), (31, "rain"), (62, "goal"), (64, "goal"),
              (70, "rain"), (75, "goal"), (90, "goal"), (125, "goal")],
    "fora": [(3, "rain"), (25, "tax"), (40, "rain"), (63, "goal"), (66, "goal"), (80, "tax"),
             (85, "rain"), (95, "tax"), (110, "tax"), (130, "goal"), (140, "rain")],
}  # fmt: skip
shown = [(12, "rain", "daily"), (35, "rain", "metro"), (65, "goal", "daily"), (92, "goal", "metro"),
         (92, "rain", "daily"), (115, "tax", "metro"), (145, "goal", "daily")]  # fmt: skip
events = [
    *(Event(Word(*w), name, n) for name, words in posted.items() for n, w in enumerate(words)),
    *(Event(Headline(*headline), "portals", n) for n, headline in enumerate(shown)),
    *(Event(Hour(60 * n), "clock", n) for n in (1, 2, 3)),
]
channels = (Channel("birds"), Channel("fora"), Channel("portals"), Channel("clock"))
expected: list[tuple[Any, ...]] = [
    ("daily", "rain", 3, 0, True),
    ("metro", "rain", 4, 0, True),
    ("hour", (("rain", 5),)),
    ("daily", "goal", 3, 1, True),
    ("metro", "goal", 6, 1, True),
    ("daily", "rain", 2, 5, False),
    ("metro", "tax", 3, 1, True),
    ("hour", (("goal", 5), ("tax", 2))),
    ("daily", "goal", 2, 6, False),
    ("hour", ()),
]


def follow(words: str | Shard) -> PlanNode:
    return PlanNode(take(Word, word=words), take(Headline, word=words))


goals = [PlanNode(take(Word, word="goal", channel=name)) for name in ("birds", "fora")]
plans = {
    "sequential": Plan(PlanNode(Word, Headline, Hour)),
    "by hash of word": Plan(PlanNode(Hour, children=(follow(Shard(0, 2)), follow(Shard(1, 2))))),
    "goals by network": Plan(
        PlanNode(
            Hour,
            children=(
                PlanNode(take(Headline, word="goal"), children=tuple(goals)),
                PlanNode(children=(follow("rain"), follow("tax"))),
            ),
        )
    ),
}


def describe(time: int, output: tuple[Any, ...]) -> str:
    if output[0] == "hour":
        words = ", ".join(f"{word} +{more}" for word, more in output[1])
        return f"at {time:>3}: trending in this hour: {words or 'nothing'}"
    portal, word, now, before, trending = output
    return f"at {time:>3}: {portal}: {word} {now} now, {before} before{', trending' * trending}"


if __name__ == "__main__":
    show(trending_words, events, channels=channels, line=describe)
