"""Every type of field through state: as a frame, by SQL, over HTTP, in a savepoint and after it is restored."""

import _thread
import json
import socket
import threading
import urllib.request
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import NamedTuple

import duckdb
import pytest

from anabranch import EventTime, Program, depends, on, run
from anabranch.sinks import read_outputs, read_rejected, write_directory
from anabranch.sources import Files
from anabranch.state import MapOf, Value

pytestmark = pytest.mark.spark

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(NamedTuple):
    x: int
    note: str | None


class Thing(NamedTuple):
    at: EventTime[datetime]
    key: str
    seen: datetime
    day: date
    price: Decimal
    data: bytes
    place: Place
    words: list[str]
    counts: dict[str, int]
    maybe: int | None
    colour: Colour
    ok: bool
    ratio: float


class Kept(NamedTuple):
    """What is kept of the last thing of a key: a field of each type."""

    seen: datetime = NOON
    day: date = date(1970, 1, 1)
    price: Decimal = Decimal(0)
    data: bytes = b""
    place: Place = Place(0, None)
    words: tuple[str, ...] = ()
    maybe: int | None = None
    colour: Colour = Colour.RED
    ok: bool = False
    ratio: float = 0.0


def keep(kept: Kept, thing: Thing) -> Kept:
    fields = {name: getattr(thing, name) for name in Kept._fields}
    return Kept(**fields | {"words": tuple(thing.words)})


def show(kept: Kept, thing: Thing) -> Kept:
    return kept


things = Program(
    on(Thing, update=keep, output=show),
    depends(Thing, Thing, same="key"),
    state=MapOf(Value(Kept()), by="key"),
)
FIRST = Kept(
    NOON + timedelta(microseconds=250), date(2026, 2, 28), Decimal("12.50"), b"\x00\xff",
    Place(1, "é"), ("a", "b"), 7, Colour.BLUE, True, 0.25,
)  # fmt: skip
SECOND = Kept(
    NOON - timedelta(days=1), date(1969, 12, 31), Decimal("-0.01"), b"", Place(-1, None), (), None,
    Colour.RED, False, -1.5,
)  # fmt: skip
TEXTS = {b"\x00\xff": "AP8=", b"": ""}


def to_line(key, minute, kept):
    row = kept._asdict() | {"key": key, "at": (NOON + timedelta(minutes=minute)).isoformat()}
    row |= {"seen": kept.seen.isoformat(), "day": kept.day.isoformat(), "price": str(kept.price)}
    row |= {"data": TEXTS[kept.data], "place": kept.place._asdict(), "colour": kept.colour.value}
    return json.dumps(row | {"counts": {"k": minute}}) + "\n"


def write_file(folder, name, *things):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(to_line(*thing) for thing in things))


def to_plain(kept):
    """Return what a frame or a table has of it."""
    plain = kept._asdict() | {"place": kept.place._asdict(), "colour": kept.colour.value}
    return plain | {"words": list(kept.words)}


def read_frame(frame, *columns):
    rows = frame.selectExpr(*columns, "* EXCEPT (seen)", "unix_micros(seen) AS seen").collect()
    found = []
    for row in rows:
        plain = row.asDict(recursive=True)
        plain["seen"] = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=plain["seen"])
        found.append(plain | {"data": bytes(plain["data"])})
    return found


def run_once(spark, source, home, number):
    from anabranch.spark import run as run_on_spark

    write_directory(
        run_on_spark(things, source, spark=spark, shards=2),
        output=home / f"out{number}",
        checkpoint=home / f"checkpoint{number}",
        available_now=True,
    ).awaitTermination()


def look_up(checkpoint, key):
    from anabranch.spark import serve

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    found, ready = [], threading.Event()

    def ask():
        ready.wait()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/state/{key}") as reply:
            found.append(json.load(reply)["value"])
        _thread.interrupt_main()

    asking = threading.Thread(target=ask)
    asking.start()
    with pytest.raises(KeyboardInterrupt):
        serve(checkpoint, port=port, show=lambda line: ready.set())
    asking.join()
    return found[0]


def test_every_type_comes_out_of_state_as_it_went_in(spark, tmp_path):
    from anabranch.spark import create_savepoint, restore_savepoint, state

    source = Files(tmp_path / "in", format="json")
    write_file(tmp_path / "in", "1.jsonl", ("x", 0, FIRST), ("y", 1, SECOND), ("z", 2, FIRST))
    run_once(spark, source, tmp_path, 1)
    checkpoint = tmp_path / "checkpoint1"
    assert read_rejected(spark, tmp_path / "out1").collect() == []

    frame = state(checkpoint, spark=spark)
    rows = {row.pop("key"): row for row in read_frame(frame)}
    # State has members of enums by their names, which stay if a value changes.
    assert rows == {
        "x": to_plain(FIRST) | {"colour": "BLUE"},
        "y": to_plain(SECOND) | {"colour": "RED"},
    }
    frame.createOrReplaceTempView("things")
    by_sql = spark.sql(
        "select key from things where price > 12 and day > date '2026-01-01' and place.x = 1"
        " and colour = 'BLUE' and maybe = 7 and words[1] = 'b' and ok and data = X'00FF'"
    )
    assert [row.key for row in by_sql.collect()] == ["x"]
    shown = look_up(checkpoint, "x")
    assert datetime.fromisoformat(shown.pop("seen")) == FIRST.seen
    assert shown == {
        "day": "2026-02-28", "price": "12.50", "data": "AP8=", "place": {"x": 1, "note": "é"},
        "words": ["a", "b"], "maybe": 7, "colour": "BLUE", "ok": True, "ratio": 0.25,
    }  # fmt: skip

    saved = create_savepoint(tmp_path / "saved", checkpoint=checkpoint, spark=spark)
    table = duckdb.sql(
        f"select key, day, price, maybe, ok, ratio from '{saved}/state/*.parquet' order by key"
    ).fetchall()
    assert [(key, day, Decimal(price), *rest) for key, day, price, *rest in table] == [
        (key, one.day, one.price, one.maybe, one.ok, one.ratio)
        for key, one in (("x", FIRST), ("y", SECOND))
    ]
    places = {"output": tmp_path / "out2", "checkpoint": tmp_path / "checkpoint2"}
    restore_savepoint(saved, things, source, **places, spark=spark, shards=2)
    write_file(
        tmp_path / "in",
        "2.jsonl",
        ("y", 3, FIRST),
        ("x", 4, SECOND),
        ("z", 5, FIRST),
        ("z", 6, FIRST),
    )
    run_once(spark, source, tmp_path, 2)
    found = read_frame(read_outputs(spark, tmp_path / "out2"))
    found.sort(key=lambda row: row["time"])
    expected = [Kept(), SECOND, FIRST, FIRST]  # Of z, y, x and z: what was kept before each.
    assert [{name: row[name] for name in Kept._fields} for row in found] == [
        to_plain(kept) for kept in expected
    ]
    answer = run(things, source, on="reference")
    assert answer.values == [Kept(), Kept(), Kept(), SECOND, FIRST, FIRST, FIRST]
