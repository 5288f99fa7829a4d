"""Values as files and frames hold them, and as annotations ask for them."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest

from anabranch.model.values.fields import Unfit, read_text, read_value, to_microseconds

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
BERLIN = timezone(timedelta(hours=2))


@pytest.mark.parametrize("value", [
    NOON, NOON.astimezone(BERLIN), NOON.replace(tzinfo=None), "2026-07-01T12:00:00",
    "2026-07-01T14:00:00+02:00", "2026-07-01T12:00:00Z",
    pa.scalar(NOON, pa.timestamp("us", "Europe/Berlin")).as_py(),
    pa.scalar(NOON.replace(tzinfo=None), pa.timestamp("us")).as_py(),
])  # fmt: skip
@pytest.mark.parametrize("annotation", [datetime, datetime | None])
def test_a_moment_is_read_in_utc(value, annotation):
    moment = read_value(value, annotation)
    assert (moment, moment.hour, moment.tzinfo, type(moment)) == (NOON, 12, UTC, datetime)
    if not isinstance(value, str):
        assert read_value(value, int) == to_microseconds(NOON)


def test_a_moment_in_anything_is_in_utc_too():
    berlin = NOON.astimezone(BERLIN)
    held = read_value({"at": berlin, "more": [berlin, (berlin, 1)]}, Any)
    assert [held["at"].hour, held["more"][0].hour, held["more"][1][0].hour] == [12, 12, 12]
    assert read_value([berlin], list[datetime])[0].hour == 12


def test_a_cell_holds_a_moment():
    assert read_text("2026-07-01T14:00:00+02:00", datetime) == NOON


def test_a_moment_that_utc_has_no_word_for_is_unfit():
    with pytest.raises(Unfit, match="is out of range in UTC"):
        read_value("0001-01-01T00:00:00+02:00", datetime)


def test_a_moment_is_no_day():
    assert read_value("2026-07-01", date) == read_value(date(2026, 7, 1), date) == date(2026, 7, 1)
    with pytest.raises(Unfit, match="expected date, got"):
        read_value(NOON, date)


@pytest.mark.parametrize("value", [
    {"a": 1, "b": 2}, [["a", 1], ["b", 2]],
    pa.array([[("a", 1), ("b", 2)]], pa.map_(pa.string(), pa.int64())).to_pylist()[0],
])  # fmt: skip
def test_a_map_is_an_object_or_a_list_of_pairs(value):
    assert read_value(value, dict[str, int]) == read_value(value, dict) == {"a": 1, "b": 2}
    assert read_value([], dict[str, int]) == {}


@pytest.mark.parametrize(("value", "annotation", "reason"), [
    ([1, 2], dict, "expected an object, or a list of pairs"),
    ([("a", 1), ("a", 2)], dict[str, int], "expected each key once"),
    ([("a", "x")], dict[str, int], "expected int"),
    ([([1], 1)], dict, "can't be read: .*unhashable"),
    ([[1]], set, "can't be read: .*unhashable"),
])  # fmt: skip
def test_what_is_no_map_is_unfit(value, annotation, reason):
    with pytest.raises(Unfit, match=reason):
        read_value(value, annotation)
