"""Fields of every type on the columnar path: runs give the answer of the reference, and of plain Python.

The input has enums, Decimals, bytes, UUIDs, times, durations, records, lists, sets, maps and unions, with and without values;
some rows are rejected, some are late, and some are pending while the run is started again.
"""

import csv
import json
import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Any, Literal, NamedTuple
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Program, depends, on, run
from anabranch.eventtime.windows.window_types import Tumbling
from anabranch.local import create_savepoint, restore_savepoint
from anabranch.microbatch.ingest import column_reader
from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger
from anabranch.microbatch.store.column_entries import forget_tables
from anabranch.query import aggregate
from anabranch.sources import Files
from anabranch.state import Count, MapOf, Sum
from anabranch.state.durable.codec import make_codec
from tests.microbatch.streams import read_published
from tests.runtimes.runtimes import read_emitted, sum_up

pytest.importorskip("numba")


class Colour(Enum):
    RED = "red"
    BLUE = "blue"
    AZURE = "blue"  # noqa: PIE796 - an alias
    NONE = None


class Level(IntEnum):
    LOW = -1
    MIDDLE = 0
    HIGH = 7


class Unit(StrEnum):
    GRAM = "g"
    TEXT = "1"


class Access(Flag):
    READ = 1
    WRITE = 2


class Place(NamedTuple):
    x: int
    note: str | None = None


@dataclass(frozen=True)
class Thing:
    time: int
    key: str
    amount: int
    colour: Colour
    level: Level
    unit: Unit | None
    price: Decimal
    data: bytes
    id: UUID
    pause: timedelta | None
    at: time
    place: Place
    places: list[Place]
    tags: tuple[str, ...]
    several: set[int]
    counts: dict[str, float]
    either: int | str
    which: Literal["a", "b"]
    access: Access = Access.READ
    extra: Any = None
    maybe: Colour = Colour.BLUE
    more: list[int] = field(default_factory=lambda: [1])


class Tick(NamedTuple):
    time: int
    key: str
    note: Decimal
    colour: Colour = Colour.RED


def add(state, event):
    return state + event.amount


def add_red(state, event):
    if event.colour == Colour.RED or event.unit is Unit.GRAM:
        return state + event.amount
    if event.level not in (Level.LOW, Level.MIDDLE) and event.maybe is not Colour.RED:
        return state + 1
    return state - 1 if event.unit != Unit.TEXT else state


def show(state, event):
    return (event.key, state, event.amount)


PROGRAMS = {
    "per key": Program(
        on(Thing, update=add, output=show),
        depends(Thing, Thing, same="key"),
        state=MapOf(Sum(), by="key"),
    ),
    "enums": Program(
        on(Thing, update=add_red, output=show),
        depends(Thing, Thing, same="key"),
        state=MapOf(Sum(), by="key"),
    ),
    "below markers": Program(
        on(Thing, update=add_red),
        on(Tick, output=lambda state, tick: (str(tick.note), tick.colour.name, state)),
        depends(Tick, Thing, Tick),
        state=Sum(),
    ),
    "windows": aggregate(Thing, Tumbling(20), per="key", n=Count(), sum=(Sum(), "amount")),
}

BAD = {
    "colour": ["green", "RED", 3, []],
    "level": [1, "7", True, 1.5],
    "unit": ["kg", 1],
    "price": ["1,5", 1.5, [], "x"],
    "data": ["é", 5],
    "id": ["nope", 7],
    "pause": ["soon", 3],
    "place": [{"note": "x"}, {"x": "1"}, [1], "x"],
    "places": [[{"x": None}], [None], "x"],
    "tags": [["a", None], "a", [1]],
    "several": [[1, "x"], {"a": 1}],
    "counts": [{"a": "x"}, [["a", 1.0], ["a", 2.0]], [1]],
    "either": [1 << 70, [], 1.5],
    "which": ["c", 1],
    "access": [9, "READ"],
    "maybe": ["pink"],
    "more": [["x"], 5],
    "key": [5],
    "amount": ["1", 1 << 64],
}  # fmt: skip


def draw_row(rng, time):
    row = {
        "type": "Thing", "time": time, "key": rng.choice("xyz"), "amount": rng.randrange(-9, 9),
        "colour": rng.choice(["red", "blue"]), "level": rng.choice([-1, 7]), "unit": rng.choice(["g", "1", None]),
        "price": rng.choice(["12.50", "-0", "1E+400", "0.1000", str(rng.getrandbits(90)), "NaN"]),
        "data": rng.choice(["", "AP8=", "eHl6"]), "id": str(UUID(int=rng.getrandbits(128))),
        "pause": rng.choice([None, "5 s", "PT0S", "1 min 5 us", "9000 h"]), "at": rng.choice(["12:30:00.5", "00:00:00"]),
        "place": rng.choice([{"x": 1 << 70, "note": "é"}, {"x": -1}, {"x": 2, "note": None}]),
        "places": [{"x": n} for n in range(rng.randrange(3))], "tags": rng.choices(["a", "é", ""], k=rng.randrange(4)),
        "several": rng.sample(range(9), rng.randrange(4)), "counts": rng.choice([{}, {"b": -0.0, "a": 1e308}]),
        "either": rng.choice([1, "x"]), "which": rng.choice("ab"), "access": rng.choice([1, 2]),
        "extra": rng.choice([None, [1, {"deep": None}], "text", 2.5]), "maybe": rng.choice(["red", "blue"]), "more": [],
    }  # fmt: skip
    for name in ("access", "extra", "maybe", "more"):
        if rng.random() < 0.3:
            del row[name]
    return row


def draw_rows(rng, count, share, *, ticks):
    rows = []
    for n in range(count):
        if ticks and n % 20 == 19:
            rows.append({"type": "Tick", "time": n, "key": "x", "note": f"{n}.50"})
            continue
        row = draw_row(rng, max(0, n + rng.randrange(-12, 3)))
        if rng.random() < share:
            name = rng.choice([*BAD])
            row[name] = rng.choice([*BAD[name], None])
        if rng.random() < share / 4:
            row.pop(rng.choice([*row]), None)
        rows.append(row)
    return rows


def write_json(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_csv(path, rows):
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, names)
        writer.writeheader()
        for row in rows:
            nested = {n: json.dumps(v) for n, v in row.items() if isinstance(v, list | dict)}
            writer.writerow(row | nested)


ARROW = {
    **{name: [pa.int64()] for name in ("time", "amount", "access")},
    **{name: [pa.string()] for name in ("type", "key", "unit", "id", "either", "which", "maybe")},
    "price": [pa.string(), pa.decimal128(38, 4)], "data": [pa.string(), pa.binary()],
    "colour": [pa.string(), pa.dictionary(pa.int8(), pa.string())], "level": [pa.int64(), pa.int8()],
    "place": [pa.struct([("x", pa.int64()), ("note", pa.string())])],
    "places": [pa.list_(pa.struct([("x", pa.int64())]))], "tags": [pa.list_(pa.string()), pa.large_list(pa.string())],
    "several": [pa.list_(pa.int16())], "counts": [pa.map_(pa.string(), pa.float64())], "more": [pa.list_(pa.int64())],
    "pause": [pa.duration("us"), pa.string()], "at": [pa.string(), pa.time64("us")],
}  # fmt: skip


def write_parquet(path, rows, rng):
    """Write each column in one of its types; a value that does not fit it is null, or the column is text."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = {}
    for name in names:
        kind = rng.choice(ARROW.get(name, [None]))
        values = [row.get(name) for row in rows]
        columns[name] = _make_array(values, kind)
    pq.write_table(pa.table(columns), path)


def _make_array(values, kind):
    made = []
    for value in values:
        try:
            made.append(pa.array([_convert(value, kind)], kind).to_pylist()[0])
        except (pa.ArrowException, TypeError, ValueError, ArithmeticError, AttributeError):
            made.append(None)
    try:
        return pa.array(made, kind)
    except (pa.ArrowException, TypeError, OverflowError):
        texts = [None if v is None else v if isinstance(v, str) else json.dumps(v) for v in made]
        return pa.array(texts, pa.string())


def _convert(value, kind):
    if value is None or kind is None:
        return value
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_duration(kind):
        return {"5 s": timedelta(seconds=5)}.get(value, timedelta(0))
    if pa.types.is_time(kind):
        return time.fromisoformat(value)
    if pa.types.is_binary(kind):
        return value.encode()
    return list(value.items()) if pa.types.is_map(kind) else value


def write(form, path, rows, rng):
    if form == "parquet":
        write_parquet(path, rows, rng)
    else:
        {"json": write_json, "csv": write_csv}[form](path, rows)


def start(program, source, home, **options):
    forget_tables()
    handle = run(
        program, source, output=home / "out", checkpoint=home / "checkpoint", available_now=True,
        cores=1, sync="system", format="json", **options,
    )  # fmt: skip
    handle.wait()
    assert (handle.job.columns is None) == (options["columnar"] == "never")


def read(home, program):
    rows = read_published(home / "out", program)
    return read_emitted(rows, read_ledger(find_last_batch(home / "out")))


def list_events(home, program):
    """Return the late and the rejected events, with all their fields."""
    rows = read_published(home / "out", program)
    return Counter(row._replace(id="") for row in rows if row.kind != "output")


def list_source(folder, form, program):
    named = {"type_column": "type"} if len(program.inputs) > 1 else {"event": Thing}
    return Files(folder, format=form, channel="s", lateness=5, files_per_batch=1, **named)


CASES = [(name, form) for name in PROGRAMS for form in ("json", "csv", "parquet")]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("name", "form"), CASES)
def test_differential_a_run_with_a_restart_gives_the_answer_of_the_reference(
    tmp_path, name, form, seed
):
    rng, program = random.Random(f"{name}/{form}/{seed}"), PROGRAMS[name]
    share = (0.0, 0.1, 0.5)[seed]
    (tmp_path / "in").mkdir()
    source = list_source(tmp_path / "in", form, program)
    rows = draw_rows(rng, 160, share, ticks=name == "below markers")
    for number in range(4):
        write(form, tmp_path / "in" / f"{number}.{form}", rows[number * 40 :][:40], rng)
        if number in (1, 3):
            start(program, source, tmp_path / "columns", columnar="require", shards=2)
    start(program, source, tmp_path / "rows", columnar="never", shards=3)
    expected = sum_up(run(program, source, on="reference", ended=False))
    assert read(tmp_path / "columns", program) == expected
    assert read(tmp_path / "rows", program) == expected
    assert list_events(tmp_path / "columns", program) == list_events(tmp_path / "rows", program)
    assert share or (expected.ledger.pending and expected.ledger.late)


@pytest.mark.parametrize("form", ["json", "parquet"])
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "windows"])
def test_pending_events_come_back_from_a_savepoint_complete(tmp_path, name, form):
    rng, program = random.Random(name), PROGRAMS[name]
    (tmp_path / "in").mkdir()
    source = list_source(tmp_path / "in", form, program)
    rows = draw_rows(rng, 120, 0.0, ticks=name == "below markers")
    write(form, tmp_path / "in" / f"0.{form}", rows[:60], rng)
    start(program, source, tmp_path / "first", columnar="require", shards=2)
    saved = create_savepoint(tmp_path / "saved", checkpoint=tmp_path / "first" / "checkpoint")
    for number, columnar in enumerate(("require", "never")):
        home = tmp_path / f"home{number}"
        places = {"output": home / "out", "checkpoint": home / "checkpoint", "format": "json"}
        restore_savepoint(saved, program, source, **places, columnar=columnar, shards=3)
    write(form, tmp_path / "in" / f"1.{form}", rows[60:], rng)
    for number, columnar in enumerate(("require", "never")):
        start(program, source, tmp_path / f"home{number}", columnar=columnar, shards=3)
    expected = sum_up(run(program, source, on="reference", ended=False))
    for number in range(2):
        found = read(tmp_path / f"home{number}", program)
        assert found.ledger == expected.ledger
        assert {*found.outputs} <= {*expected.outputs}
    one, other = (tmp_path / f"home{number}" for number in range(2))
    assert read(one, program) == read(other, program)
    assert list_events(one, program) == list_events(other, program)


def test_sums_of_enums_are_those_of_plain_python(tmp_path):
    rng = random.Random(1)
    (tmp_path / "in").mkdir()
    source = list_source(tmp_path / "in", "json", PROGRAMS["enums"])
    rows = [draw_row(rng, n) for n in range(200)]
    write_json(tmp_path / "in" / "0.json", rows)
    start(PROGRAMS["enums"], source, tmp_path, columnar="require", shards=2)
    sums, expected = {}, []
    for row in rows[:194]:
        key, amount = row["key"], row["amount"]
        expected.append([key, sums.get(key, 0), amount])
        if row["colour"] == "red" or row["unit"] == "g":
            change = amount
        elif row["level"] == 7 and row.get("maybe") != "red":
            change = 1
        else:
            change = 0 if row["unit"] == "1" else -1
        sums[key] = sums.get(key, 0) + change
    found = [json.loads(value) for _, value in read(tmp_path, PROGRAMS["enums"]).outputs]
    assert Counter(map(tuple, found)) == Counter(map(tuple, expected))


@pytest.mark.parametrize(
    "values",
    [
        [], [None, 1, "x"], [1 << 70, 1], [Decimal("1.50"), Decimal("-0")], [Decimal(1), None],
        [Place(1), Place(1 << 70, "x")], [Place(1), Colour.RED], [Colour.RED, Colour.BLUE], [Level.LOW],
        [Access.READ | Access.WRITE], [{"b": 1, "a": 2}, {}], [[Place(1)], []], [-0.0, 1.5], [b"", b"x"], [True, 2],
    ],
)  # fmt: skip
def test_many_values_are_encoded_as_one_by_one(values):
    codec = make_codec(PROGRAMS["per key"])
    assert list(codec.encode_each(values)) == list(map(codec.encode, values))


@pytest.mark.parametrize("form", ["json", "parquet"])
def test_rows_with_scalars_of_every_type_are_read_without_objects(tmp_path, monkeypatch, form):
    class Scalars(NamedTuple):
        time: int
        key: str
        unit: Unit | None
        level: Level
        price: Decimal
        data: bytes
        id: UUID
        pause: timedelta | None
        amount: int

    program = Program(
        on(Scalars, update=add, output=show),
        depends(Scalars, Scalars, same="key"),
        state=MapOf(Sum(), by="key"),
    )
    rng = random.Random(form)
    rows = [{n: r[n] for n in Scalars._fields} for r in (draw_row(rng, n) for n in range(50))]
    (tmp_path / "in").mkdir()
    rows = [row | {"pause": "5 s", "price": "1.50"} for row in rows]
    write(form, tmp_path / "in" / f"0.{form}", rows, rng)

    def refuse(*_):
        raise AssertionError("rows are read one by one")

    monkeypatch.setattr(column_reader, "read_block", refuse)
    source = Files(tmp_path / "in", format=form, event=Scalars, channel="s", lateness=5)
    start(program, source, tmp_path, columnar="require", shards=2)
    assert read(tmp_path, program).ledger.input == 50
