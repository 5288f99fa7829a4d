"""`evaluate`: tables in, tables out, of Arrow, pandas and Polars; against the reference and plain Python."""

import random
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from anabranch import Event, Program, depends, on
from anabranch.errors import AnabranchError, InputError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.local import evaluate
from anabranch.microbatch.exchange.result_rows import encode_json
from anabranch.reference.sequential import run as fold
from anabranch.sources.files import Files
from anabranch.sources.memory_tables import InMemory
from anabranch.state import MapOf, Sum


class Bid(NamedTuple):
    time: int
    item: str
    price: int


class Close(NamedTuple):
    time: int
    item: str


class Total(NamedTuple):
    item: str
    total: int


def close(total: int, event: Close) -> Total:
    return Total(event.item, total)


auction = Program(
    on(Bid, update=lambda total, bid: total + bid.price),
    on(Close, output=close, update=lambda total, close: 0),
    depends(Close, Bid, Close, same="item"),
    state=MapOf(Sum(), by="item"),
    name="auction",
)
BIDS = {"time": [1, 2, 3, 5, 6], "item": ["a", "b", "a", "a", "b"], "price": [10, 20, 5, 7, 1]}
CLOSES = {"time": [4, 6, 9], "item": ["a", "a", "b"]}
# At equal times a marker comes first.
EXPECTED = [("a", 15), ("a", 7), ("b", 21)]


def read(table) -> list[tuple[str, int]]:
    return list(zip(table["item"].to_pylist(), table["total"].to_pylist(), strict=True))


KINDS = {
    "arrow": (pa.table, pa.Table, lambda table: table),
    "record batch": (
        pa.RecordBatch.from_pydict, pa.Table, lambda table: table,
    ),
    "pandas": (pd.DataFrame, pd.DataFrame, pa.Table.from_pandas),
    "polars": (pl.DataFrame, pl.DataFrame, lambda table: table.to_arrow()),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("columnar", ["auto", "never"])
def test_the_result_is_of_the_kind_of_the_input(kind, columnar):
    make, wanted, convert = KINDS[kind]
    tables = {"bids": make(BIDS), "closes": make(CLOSES)}
    result = evaluate(auction, tables, columnar=columnar, cores=1, shards=2)
    assert isinstance(result.outputs, wanted)
    assert isinstance(result.late, wanted)
    assert isinstance(result.rejected, wanted)
    assert read(convert(result.outputs)) == EXPECTED
    assert (result.ledger.processed, len(result.late), len(result.rejected)) == (8, 0, 0)


def test_tables_by_channel_by_event_type_and_as_sources_give_the_same():
    bids, closes = pa.table(BIDS), pa.table(CLOSES)
    ways = [
        {"Bid": bids, "Close": closes},
        {Bid: bids, Close: closes},
        {Bid: bids, "Close": closes},
        [InMemory(bids, event=Bid), InMemory(closes, event=Close)],
        {"x": InMemory(bids, event=Bid), "y": InMemory(closes, event=Close)},
    ]
    answers = [evaluate(auction, way, cores=1).outputs for way in ways]
    assert read(answers[0]) == EXPECTED
    assert all(answer.equals(answers[0]) for answer in answers)


def test_one_source_of_several_event_types():
    rows = [
        {"kind": "Bid", "time": 1, "item": "a", "price": 4},
        {"kind": "Close", "time": 2, "item": "a", "price": None},
    ]
    source = InMemory(pa.Table.from_pylist(rows), type_column="kind", channel="log")
    assert read(evaluate(auction, source, cores=1).outputs) == [("a", 4)]


def test_late_and_bad_rows_are_kept_with_the_reason_and_the_distance():
    prices = pd.array([1, None, 3, 4], dtype="Int64")
    bids = pd.DataFrame({"time": [1, 2, 2, 10], "item": ["a"] * 4, "price": prices})
    sources = [InMemory(bids, event=Bid), InMemory(pa.table(CLOSES), event=Close)]
    result = evaluate(auction, sources, cores=1)
    assert str(result.ledger) == "7 input, 6 processed, 1 rejected"
    (rejected,) = result.rejected.to_pylist()
    assert "price" in rejected["reason"]
    late = pa.table({"time": [5, 1], "item": ["a", "a"], "price": [1, 1]})
    found = evaluate(auction, {Bid: late}, cores=1).late.to_pylist()
    assert [(row["time"], row["distance"]) for row in found] == [(1, 3)]
    patient = evaluate(auction, InMemory(late, event=Bid, lateness=4), cores=1)
    assert patient.ledger.late == 0


def test_speculative_outputs_that_stand_are_the_settled_ones():
    sources = [InMemory(pa.table(BIDS), event=Bid), InMemory(pa.table(CLOSES), event=Close)]
    rows = evaluate(auction, sources, mode="speculative", cores=1).outputs.to_pylist()
    kept: dict[tuple, int] = {}
    for row in rows:
        key = (row["item"], row["total"], row["id"])
        kept[key] = kept.get(key, 0) + row["op"]
    assert sorted((item, total) for (item, total, _), n in kept.items() if n) == sorted(EXPECTED)


class Seen(NamedTuple):
    time: datetime
    who: str
    weight: float | None = None


def test_timestamps_defaults_and_missing_columns():
    program = Program(
        on(Seen, output=lambda n, e: (e.who, n, e.weight), update=lambda n, e: n + 1),
        depends(Seen, Seen, same="who"),
        state=MapOf(Sum(), by="who"),
    )
    start = datetime(2026, 7, 1, tzinfo=UTC)
    times = [start + timedelta(hours=n) for n in range(3)]
    expected = [("x", 0, None), ("y", 0, None), ("x", 1, None)]
    for make in (pa.table, pd.DataFrame, pl.DataFrame):
        result = evaluate(program, {"gate": make({"time": times, "who": ["x", "y", "x"]})}, cores=1)
        assert result.ledger.processed == 3
        table = result.outputs
        table = table if isinstance(table, pa.Table) else pa.table(table)
        assert [v for row in table.to_pylist() for v in flatten(row)] == [
            v for triple in expected for v in triple
        ]


def flatten(row: dict) -> list:
    import json

    values = {name: value for name, value in row.items() if name not in ("id", "time", "op")}
    (value,) = values.values()
    return json.loads(value) if isinstance(value, str) else list(value)


# --- wrong tables --------------------------------------------------------------------------------

WRONG = {
    "no table": ({"bids": [1, 2]}, "list is not a table"),
    "an unclear type": ({"x": pa.table({"time": [1]})}, "the event type of the table 'x'"),
    "no price": ({Bid: pa.table({"time": [1], "item": ["a"]})}, "price"),
    "a text as price": ({Bid: pa.table({**BIDS, "price": list("abcde")})}, "price"),
    "another type": ({Total: pa.table({"item": ["a"], "total": [1]})}, "Total"),
    "nothing": ({}, "no source"),
    "a folder that may grow": ([Files(".", format="json", event=Bid)], "the whole input"),
    "one channel twice": (
        [InMemory(pa.table(BIDS), event=Bid), InMemory(pa.table(BIDS), event=Bid)],
        "declared by two sources",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_table_is_refused_with_what_is_wrong(name):
    tables, what = WRONG[name]
    with pytest.raises(AnabranchError, match=what) as refusal:
        evaluate(auction, tables, cores=1)
    assert refusal.value.expected or refusal.value.cure


def test_wrong_options_are_refused():
    tables = {Bid: pa.table(BIDS)}
    for options in ({"cores": 0}, {"shards": 0}, {"shard": 2}, {"mode": "fast"}):
        with pytest.raises(InputError):
            evaluate(auction, tables, **options)
    with pytest.raises(InputError, match="takes a program"):
        evaluate(tables, auction)


def test_empty_tables_give_empty_tables_with_columns():
    empty = {name: pa.array([], pa.string() if name == "item" else pa.int64()) for name in BIDS}
    result = evaluate(auction, {Bid: pa.table(empty)}, cores=1)
    assert result.outputs.column_names == ["id", "time", "op", "item", "total"]
    assert (len(result.outputs), result.ledger.input) == (0, 0)
    assert result.late.column_names
    assert "<b>ledger</b>" in result._repr_html_()


# --- random events -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_oracle_random_tables_give_what_the_reference_and_plain_python_give(seed):
    rng = random.Random(seed)
    lateness = rng.choice((0, 3))
    items, tables = [], []
    for name, event_type in (("north", Bid), ("south", Bid), ("closes", Close)):
        rows = []
        clock = 0
        for _ in range(rng.randint(0, 40)):
            clock += rng.randint(0, 2)
            row = {"time": clock - rng.randint(0, 4), "item": rng.choice("abc")}
            rows.append(row | ({"price": rng.randint(-5, 50)} if event_type is Bid else {}))
        items += [Event(event_type(**row), name, seq) for seq, row in enumerate(rows)]
        schema = [("time", pa.int64()), ("item", pa.string())]
        schema += [("price", pa.int64())] if event_type is Bid else []
        table = pa.Table.from_pylist(rows, pa.schema(schema))
        make = rng.choice((lambda t: t, lambda t: t.to_pandas(), pl.from_arrow))
        tables.append(InMemory(make(table), event=event_type, channel=name, lateness=lateness))
    channels = [Channel(t.channel, lateness=lateness) for t in tables]
    answer = fold(auction, end_channels(items, channels=channels), channels)
    expected = [encode_json(output.value) for output in answer.outputs]
    for columnar in ("auto", "never"):
        options = {"cores": rng.choice((1, 2)), "shards": rng.choice((1, 2, 5))}
        result = evaluate(auction, tables, columnar=columnar, **options)
        assert [encode_json(Total(*pair)) for pair in read(result.outputs)] == expected
        assert result.ledger == answer.ledger
        assert len(result.late) == len(answer.late)

    late = set()
    for channel in channels:
        top = None
        for item in (i for i in items if i.channel == channel.name):
            if top is not None and item.data.time < top - lateness:
                late.add(item[1:3])
            top = item.data.time if top is None else max(top, item.data.time)
    kept = [item for item in items if item[1:3] not in late]
    kept.sort(key=lambda i: (i.data.time, type(i.data) is Bid, i.channel, i.seq))
    totals: dict[str, int] = {}
    plain = []
    for item in kept:
        if type(item.data) is Bid:
            totals[item.data.item] = totals.get(item.data.item, 0) + item.data.price
        else:
            plain.append((item.data.item, totals.pop(item.data.item, 0)))
    assert read(result.outputs) == plain
