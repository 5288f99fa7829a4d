"""Handlers for the tests of translation, in a file of their own so that their lines stay put."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

from anabranch import on
from anabranch.state import Count, Max, Min, Struct, Sum

LIMIT = 3
rates = {"a": 1}


class Tick(NamedTuple):
    time: int
    n: int
    x: float
    word: str
    maybe: int | None = None


class Nested(NamedTuple):
    low: int = 0
    last: int | None = None


class Whole(NamedTuple):
    inner: Nested = Nested()
    word: str = ""
    best: Nested | None = None

    @property
    def total(self):
        return self.inner.low + (self.inner.last or 0)

    @staticmethod
    def twice(n):
        return 2 * n

    @classmethod
    def of(cls, n):
        return cls(Nested(n))


@dataclass(frozen=True)
class Pair:
    a: int
    b: float = 1.0

    def moved(self, by: int) -> "Pair":
        return replace(self, a=self.a + by)


stats = Struct(seen=Count(), top=Max(), least=Min(), total=Sum(0.0))


def nested(s: Whole, e: Tick) -> Whole:
    if e.maybe is None:
        return s._replace(inner=s.inner._replace(low=s.inner.low - 1))
    if s.best is None or s.best.low < e.maybe:
        s = s._replace(best=Nested(e.maybe, e.n))
    low, _ = s.inner
    word = e.word if e.word != s.word and e.word in ("a", "b") else s.word
    return Whole(Nested(low + e.n, last=e.maybe), word, s.best)


def emit(s: Whole, e: Tick):
    yield s.total
    if s.best is not None and s.best.last is not None:
        yield ("best", s.best.low, s.best.last, s.best)
    yield (e.word, s.word == e.word, Whole.twice(e.n), e.maybe)
    yield Whole.of(e.n)[0]
    yield None


def climb(s: int, e: Tick) -> int:
    total, step = 0, 1
    for n in range(e.n % 5):
        total, step = total + step, step + n
    while total > 3:
        total -= LIMIT
    for part in (1, e.n, s):
        total += part
    return total


def drift(s: float | None, e: Tick) -> float | None:
    last = None
    for n in range(e.n):
        if n % 2:
            last = e.x + n
    if last is None:
        last = s
    return last


def guarded(s: int, e: Tick) -> int:
    assert e.n >= 0, "n is negative"
    if e.word == "boom":
        raise ValueError(e.word)
    root = math.sqrt(e.x)
    return s + math.floor(root)


def hello(s: int, e: Tick):
    return hello_more(s, e) if e.n else None


def hello_more(s: int, e: Tick):
    if e.n > 2:
        return [e.word, "many", s]
    return e.maybe


GOOD = {
    "nested": ([on(Tick, update=nested, output=emit)], Whole()),
    "struct": (
        [on(Tick, update=lambda s, e: stats.add(s, seen=1, top=e.n, least=e.x, total=e.x))],
        stats.init,
    ),
    "loops": ([on(Tick, update=climb, output=climb)], 0),
    "grows": ([on(Tick, update=drift)], None),
    "raises": ([on(Tick, update=guarded, output=lambda s, e: s)], 0),
    "frozen": ([on(Tick, update=lambda s, e: s.moved(e.n), output=lambda s, e: s)], Pair(0)),
    "tuple": ([on(Tick, update=lambda s, e: (s[1], e.n), output=lambda s, e: s[-1])], (0, 0)),
    "calls": ([on(Tick, update=lambda s, e: Max().add(s, e.n))], None),
    "two on a line": ([on(Tick, update=lambda s, e: s + e.n, output=lambda s, e: s - e.n)], 0),
    "says in a call": ([on(Tick, output=hello)], 0),
    "text": ([on(Tick, update=lambda s, e: e.word or s, output=lambda s, e: s == "a")], "start"),
    "unused": ([on(Tick, update=lambda s, e: not s)], True),
}

REFUSED = {
    "dict": (on(Tick, update=lambda s, e: rates["a"] + s), 0),
    "dict display": (on(Tick, update=lambda s, e: {1: s}[1]), 0),
    "f-string": (on(Tick, output=lambda s, e: f"{s}"), 0),
    "comprehension": (on(Tick, output=lambda s, e: [n + 1 for n in (1, s)]), 0),
    "float power": (on(Tick, update=lambda s, e: s + e.x**2), 0.0),
    "int becomes float": (on(Tick, update=lambda s, e: s + e.x), 0),
    "bool becomes int": (on(Tick, update=lambda s, e: s + True), False),
    "branch types": (on(Tick, output=lambda s, e: (s, e.n if s else e.x)), 0),
    "max types": (on(Tick, output=lambda s, e: max(0, e.x)), 0),
    "logarithm": (on(Tick, output=lambda s, e: math.log(e.x)), 0),
    "text order": (on(Tick, output=lambda s, e: e.word < "m"), 0),
    "text sum": (on(Tick, output=lambda s, e: e.word + "!"), 0),
    "method": (on(Tick, output=lambda s, e: e.word.upper()), 0),
    "print": (on(Tick, output=lambda s, e: print(s)), 0),  # noqa: T201
    "big constant": (on(Tick, update=lambda s, e: s + 2**70), 0),
    "state": (on(Tick, update=lambda s, e: s | {e.n}), frozenset()),
    "other record": (on(Tick, update=lambda s, e: (s.low, None)), Nested()),
}
