"""The table of what the row path alone can do: each row is met by a program, and the docs show it."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from anabranch import Program, depends, load, on
from anabranch.eventtime.channels import Source
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
    PerSource,
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


def keyed(tag=Value, state=None, *more, update=lambda s, e: s):
    return Program(
        on(tag, update=update),
        *more,
        depends(tag, tag, same="key"),
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
    "`ahead`, a bound on times": lambda: {"source": Source("s", ahead=5)},
    "estimated lateness": lambda: {"source": Source("s", lateness=Estimated(0.9))},
    "arrival order (`in_turn`)": lambda: {"source": Source("s", in_turn=True)},
    "fields other than int, float, bool, str, datetime and date, or one of them or None": lambda: {
        "program": keyed(Odd)
    },
    "entries with a time to live (`ttl`)": lambda: {
        "program": keyed(Value, MapOf(Sum(), by="key", ttl=5))
    },
    "`Shared`": lambda: {"program": keyed(Value, SHARING)},
    "timers, other than windows that fire once": lambda: {"program": woken()},
    "deferred outputs": lambda: {"program": load("examples/fraud.py")},
    "hot keys": lambda: {"program": COUNTER, "hot": [1]},
    "`Limited`": lambda: {"program": keyed(Value, MapOf(Limited(ListOf(), items=2), by="key"))},
    "entries per source": lambda: {"program": below_markers(PerSource(Count()))},
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
    "states that do not lie in columns": lambda: {
        "program": keyed(Value, MapOf(ListOf(), by="key"), update=lambda s, e: (*s, e.amount))
    },
}


@pytest.mark.parametrize("feature", ROW_PATH_ONLY, ids=lambda feature: feature.name)
def test_a_run_that_uses_a_feature_of_the_row_path_takes_it_and_says_so(feature):
    use = USES[feature.name]()
    program = use.get("program", PLAIN)
    source = use.get("source", Source("s"))
    options = {"numbered": use.get("numbered", True), "mode": use.get("mode", "settled")}
    wiring = choose_layout(program, 4, use.get("hot", ()))
    if "way" in use:
        wiring = replace(wiring, way=use["way"], leaves={})
    gaps = [*list_gaps(Use(program, wiring, {"s": source}, **options))]
    assert feature.name in [gap.feature.name for gap in gaps]
    assert plan_columns(program, wiring, {"s": source}, **options) == gaps[0].reason
    if set(use) <= {"program", "source"}:
        found = describe_run(program, [source], shards=4)
        assert found.columns is None
        assert feature.name in [gap["feature"] for gap in found.to_json()["row_path_only"]]
        assert [line for line in found.lines() if line.startswith("row path:")]


def test_a_plain_program_has_no_gaps():
    wiring = choose_layout(PLAIN, 4)
    assert [*list_gaps(Use(PLAIN, wiring, {"s": Source("s")}))] == []
    found = plan_columns(PLAIN, wiring, {"s": Source("s")}, numbered=True)
    assert isinstance(found, ColumnPlan)


def test_the_docs_show_the_table_as_it_is():
    page = Path("docs/how-a-program-is-cut.md").read_text(encoding="utf-8")
    for feature in ROW_PATH_ONLY:
        assert f"| {feature.name} | {feature.why} |\n" in page
