"""The table of what the row path alone can do: each row is met by a program, and the docs show it."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from anabranch import Program, depends, load, on
from anabranch.eventtime.channels import Channel
from anabranch.eventtime.disorder import Estimated
from anabranch.microbatch.job.column_plan import ColumnPlan, plan_columns
from anabranch.microbatch.job.row_path_features import ROW_PATH_ONLY, Use, list_gaps
from anabranch.plan.layouts import choose_layout
from anabranch.spark.run_explanation import describe_run
from anabranch.state import (
    Count,
    ExactSum,
    Limited,
    ListOf,
    MapOf,
    PerChannel,
    Replicated,
    Shared,
    Sum,
)


class Value(NamedTuple):
    time: int
    key: int
    amount: int


class Odd(NamedTuple):
    time: int
    key: int
    amount: int = None


class Rich(NamedTuple):
    time: int
    key: int
    amount: Any


class Keyed(NamedTuple):
    time: int
    key: float


class Mark(NamedTuple):
    time: int
    key: int


class Wake(NamedTuple):
    time: int
    key: int


def keyed(event_type=Value, state=None, *more, update=lambda s, e: s):
    return Program(
        on(event_type, update=update),
        *more,
        depends(event_type, event_type, same="key"),
        state=state or MapOf(Sum(), by="key"),
    )


def below_markers(state, **options):
    return Program(
        on(Value, update=lambda s, e: s),
        on(Mark, output=lambda s, e: 1, update=lambda s, e: s),
        depends(Mark, Value, Mark),
        state=state,
        **options,
    )


def woken():
    return Program(
        on(Value, update=lambda s, e: s),
        on(Wake, due=lambda s: None, update=lambda s, e: s),
        depends(Value, Value, same="key"),
        state=MapOf(Sum(), by="key"),
    )


PLAIN = keyed()
SHARING = Shared(Replicated(0), MapOf(Sum(), by="key"))
COUNTER = load("examples/key_counter.py")

USES = {
    "speculative mode": lambda: {"mode": "speculative"},
    "channels without a sequence": lambda: {"numbered": False},
    "`max_ahead`, a bound on times": lambda: {"channel": Channel("s", max_ahead=5)},
    "estimated lateness": lambda: {"channel": Channel("s", lateness=Estimated(0.9))},
    'arrival order (`order="arrival"`)': lambda: {"channel": Channel("s", order="arrival")},
    "events that are more than their fields, or have a default of another type": lambda: {
        "program": keyed(Odd)
    },
    "entries with a time to live (`ttl`)": lambda: {
        "program": keyed(Value, MapOf(Sum(), by="key", ttl=5))
    },
    "`Shared`": lambda: {"program": keyed(Value, SHARING)},
    "timers, other than windows that fire once": lambda: {"program": woken()},
    "deferred outputs": lambda: {"program": load("examples/fraud.py")},
    "hot keys": lambda: {"program": COUNTER, "hot_keys": [1]},
    "`Limited`": lambda: {"program": keyed(Value, MapOf(Limited(ListOf(), items=2), by="key"))},
    "entries per channel": lambda: {"program": below_markers(PerChannel(Count()))},
    "entries within entries": lambda: {
        "program": keyed(Value, MapOf(MapOf(Sum(), by="amount"), by="key"))
    },
    "lanes, other than below markers": lambda: {
        "program": below_markers(Sum(), lanes=2),
        "way": "sequential",
    },
    "handlers that see all entries": lambda: {
        "program": keyed(Value, None, on(Mark, whole=True, output=lambda s, e: 1))
    },
    "keys other than int, str or bool": lambda: {"program": keyed(Keyed)},
    "markers of one entry": lambda: {
        "program": Program(
            on(Value, update=lambda s, e: s + 1),
            on(Mark, output=lambda s, e: 1),
            depends(Mark, Value, Mark),
            state=MapOf(Sum(), by="key"),
        )
    },
    "exact sums, means and variances of floats, per key": lambda: {
        "program": keyed(Value, MapOf(ExactSum(), by="key"))
    },
    "handlers that are not compiled, of events with an enum, Decimal, bytes, UUID, time, timedelta, record, list or map": lambda: {
        "program": keyed(Rich, update=lambda s, e: s + int(e.amount))
    },
    "states that can't be stored in columns": lambda: {
        "program": keyed(Value, MapOf(ListOf(), by="key"), update=lambda s, e: (*s, e.amount))
    },
}


@pytest.mark.parametrize("feature", ROW_PATH_ONLY, ids=lambda feature: feature.name)
def test_a_run_that_uses_a_feature_of_the_row_path_takes_it_and_says_so(feature):
    use = USES[feature.name]()
    program = use.get("program", PLAIN)
    channel = use.get("channel", Channel("s"))
    options = {"numbered": use.get("numbered", True), "mode": use.get("mode", "settled")}
    layout = choose_layout(program, 4, hot_keys=use.get("hot_keys", ()))
    if "way" in use:
        layout = replace(layout, way=use["way"], leaves={})
    gaps = [*list_gaps(Use(program, layout, {"s": channel}, **options))]
    assert feature.name in [gap.feature.name for gap in gaps]
    assert plan_columns(program, layout, {"s": channel}, **options) == gaps[0].reason
    if set(use) <= {"program", "channel"}:
        found = describe_run(program, [channel], shards=4)
        assert found.columns is None
        assert feature.name in [gap["feature"] for gap in found.to_json()["row_path_only"]]
        assert [line for line in found.lines() if line.startswith("row path:")]


def test_a_plain_program_has_no_gaps():
    layout = choose_layout(PLAIN, 4)
    assert [*list_gaps(Use(PLAIN, layout, {"s": Channel("s")}))] == []
    found = plan_columns(PLAIN, layout, {"s": Channel("s")}, numbered=True)
    assert isinstance(found, ColumnPlan)


def test_the_docs_show_the_table_as_it_is():
    page = Path("docs/how-a-program-is-cut.md").read_text(encoding="utf-8")
    for feature in ROW_PATH_ONLY:
        assert f"| {feature.name} | {feature.why} |\n" in page
