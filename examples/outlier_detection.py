"""Find unusual connections in a network that is observed at several places.

Each connection has a service, a way in which it ended, and a number of bytes. The model counts, for each
service, each ending and each pair of the two, how often it was seen and how many bytes it had. A connection
is an outlier if its service, its ending or the pair is rare, or if its bytes are far from the mean. Watchers
observe different connections and count in parallel, in any order; a `Check` adds up their models and scores
all connections since the last one with the sum. After RELOADED, one of the two case studies of Flumina, whose
fork copies the model to both sides and so counts twice; here the counts are on one side, and the answer is exact.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from anabranch import Event, Program, Shard, depends, on, take
from anabranch.demo import show
from anabranch.plan import Plan, PlanNode
from anabranch.sources import Channel
from anabranch.state import Bag, Count, Dictionary, Struct, Sum

RARE = 3
"""A combination that was seen less often adds to the score of a connection."""
FAR = 196
"""Hundredths of a standard deviation: bytes further from the mean add to the score, too."""
SUSPICIOUS = 2
"""The score from which a connection is an outlier: a service or an ending counts 2, a pair of them 1."""


class Connection(NamedTuple):
    time: int
    service: str
    ending: str
    bytes: int


class Check(NamedTuple):
    time: int


model = Struct(
    seen=Dictionary(Count()), bytes=Dictionary(Sum()), squares=Dictionary(Sum()), fresh=Bag()
)


def combine(connection: Connection) -> Iterator[tuple[str, int]]:
    """Return the combinations of a connection, each with its weight."""
    yield connection.service, 2
    yield connection.ending, 2
    yield f"{connection.service} {connection.ending}", 1


def learn(known: Any, connection: Connection) -> Any:
    size = connection.bytes
    for name, _ in combine(connection):
        known = known._replace(
            seen=known.seen.set(name, known.seen.get(name, 0) + 1),
            bytes=known.bytes.set(name, known.bytes.get(name, 0) + size),
            squares=known.squares.set(name, known.squares.get(name, 0) + size**2),
        )
    return model.add(known, fresh=connection)


def score(known: Any, connection: Connection) -> int:
    """Return the score of a connection, in integers, so that it does not depend on the order."""
    against = 0
    for name, weight in combine(connection):
        seen, total = known.seen[name], known.bytes[name]
        distance = (seen * connection.bytes - total) ** 2
        spread = seen * known.squares[name] - total**2
        if seen < RARE or 100**2 * distance > FAR**2 * spread:
            against += weight
    return against


def judge(known: Any, check: Check) -> list[tuple[int, str, str, int, int]]:
    found = []
    for connection, count in known.fresh:
        against = score(known, connection)
        if against >= SUSPICIOUS:
            found += [(*connection, against)] * count
    return sorted(found)


outlier_detection = Program(
    on(Connection, update=learn),
    on(Check, output=judge, update=lambda known, check: known._replace(fresh=())),
    depends(Check, Connection, Check),
    state=model,
)

web, mail = ("web", "ok"), ("mail", "ok")
# fmt: off
seen = {
    "north": [(1, *web, 210), (3, *web, 190), (5, *web, 205), (7, *mail, 900), (9, *web, 195),
              (12, *web, 200), (14, "web", "reset", 0), (16, *web, 9_000), (18, *mail, 880)],
    "south": [(2, *mail, 950), (4, *web, 220), (6, *mail, 910), (8, *web, 185), (10, *mail, 930),
              (11, *web, 215), (13, "telnet", "ok", 40), (15, *mail, 905), (17, *web, 200),
              (21, "telnet", "ok", 42), (22, *web, 198), (23, "telnet", "ok", 41)],
}
# fmt: on
events = [
    Event(Connection(*connection), watcher, n)
    for watcher, connections in seen.items()
    for n, connection in enumerate(connections)
] + [Event(Check(time), "desk", n) for n, time in enumerate((10, 20, 30))]
channels = (Channel("north"), Channel("south"), Channel("desk"))
expected = [
    (13, "telnet", "ok", 40, 3),
    (14, "web", "reset", 0, 3),
    (16, "web", "ok", 9_000, 5),
]

north, south = (PlanNode(take(Connection, channel=name)) for name in ("north", "south"))
lanes = [PlanNode(take(Connection, lane=Shard(n, 4))) for n in range(4)]
plans = {
    "sequential": Plan(PlanNode(Connection, Check)),
    "by watcher": Plan(PlanNode(Check, children=(north, south))),
    "four lanes": Plan(
        PlanNode(Check, children=(PlanNode(children=lanes[:2]), PlanNode(children=lanes[2:])))
    ),
}


def describe(time: int, output: tuple[int, str, str, int, int]) -> str:
    when, service, ending, size, against = output
    return f"check at {time}: {service}, {ending}, {size} bytes at {when}: {against} against it"


if __name__ == "__main__":
    show(outlier_detection, events, channels=channels, line=describe)
