"""The columns of a window's aggregates: each ready-made state has a type, and its values fit it."""

from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from anabranch import Event, run
from anabranch.microbatch.exchange.output_columns import OutputColumns
from anabranch.state import (
    ApproxDistinct,
    Count,
    Distinct,
    ExactMean,
    ExactSum,
    ExactVariance,
    Latest,
    Max,
    Mean,
    Min,
    Sum,
    TopK,
)
from anabranch.windows import Tumbling, aggregate


class Seen(NamedTuple):
    time: datetime
    user: str
    points: int
    price: float
    note: str | None = None


def double(seen: Seen) -> int:
    return 2 * seen.points


def halve(seen: Seen):
    return seen.points / 2


PARTS = {
    "count": (Count(), "bigint"),
    "sum of ints": ((Sum(), "points"), "bigint"),
    "sum of floats": ((Sum(), "price"), "double"),
    "sum of an annotated function": ((Sum(), double), "bigint"),
    "sum of any function": ((Sum(), halve), "string"),
    "max": ((Max(), "note"), "string"),
    "min": ((Min(), "points"), "bigint"),
    "mean": ((Mean(), "points"), "double"),
    "mean of an annotated function": ((Mean(), double), "double"),
    "exact sum": ((ExactSum(), "price"), "double"),
    "exact mean": ((ExactMean(), "price"), "double"),
    "exact variance of a function": ((ExactVariance(), halve), "double"),
    "distinct": ((Distinct(), "user"), "bigint"),
    "approximately distinct": ((ApproxDistinct(), "user"), "bigint"),
    "top": ((TopK(2), "points"), "array<bigint>"),
    "top of a function": ((TopK(2), double), "string"),
    "latest": (
        Latest(),
        "struct<`time`:timestamp,`user`:string,`points`:bigint,`price`:double,`note`:string>",
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_an_aggregate_has_a_column_of_its_type_which_its_values_fit(name):
    part, column = PARTS[name]
    program = aggregate(Seen, Tumbling("1 min"), per="user", found=part)
    assert f"`value` struct<`found`:{column}>" in OutputColumns(program.output_types).ddl
    rows = [
        Seen(datetime(2026, 7, 1, 12, 0, second, tzinfo=UTC), "ada", second, second / 4, "n")
        for second in (1, 5, 9)
    ]
    answer = run(program, [Event(row, "s", number) for number, row in enumerate(rows)])
    assert answer.rejected == []
    assert len(answer.values) == 1
