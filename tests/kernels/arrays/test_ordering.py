"""Ordering: the fast way and the plain one say the same, and what the model says."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.arrays import ordering

EXTREMES = [-(2**63), -1, 0, 1, 2**63 - 1]


@pytest.fixture(params=["numba", "numpy"], scope="module")
def way(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "numpy":
            patch.setattr(ordering, "_passes", lambda: None)
        yield request.param


numbers = st.integers(0, 3) | st.sampled_from(EXTREMES)
events = st.lists(
    st.tuples(
        st.integers(0, 10) | st.sampled_from(EXTREMES),
        st.integers(0, 2),
        st.integers(0, 4),
        numbers,
    ),
    max_size=300,
)


def columns_of(rows):
    table = np.array(rows, dtype=np.int64).reshape(-1, 4)
    return [table[:, n] for n in range(4)]


@given(events)
def test_the_order_is_that_of_python(way, rows):
    order = ordering.sort_order(*columns_of(rows))
    assert order.tolist() == sorted(range(len(rows)), key=lambda n: rows[n])
    assert ordering.is_ordered(*columns_of(rows)) == (rows == sorted(rows))


@pytest.mark.parametrize("size", [1000, 5000])
@pytest.mark.parametrize("spread", [10, 10**12, 2**62])
def test_many_rows_in_disorder_are_sorted(way, size, spread):
    draw = np.random.default_rng(size)
    bounds = (spread, 3, 7, spread)
    columns = [draw.integers(0, high, size) for high in bounds]
    assert ordering.sort_order(*columns).tolist() == np.lexsort(columns[::-1]).tolist()


def test_channels_that_are_in_order_themselves_are_merged(way):
    draw = np.random.default_rng(1)
    source = draw.integers(0, 5, 3000)
    seq = np.arange(3000)
    time = draw.integers(0, 50, 3000)
    columns = [time, np.zeros(3000, np.int64), source, seq]
    assert ordering.sort_order(*columns).tolist() == np.lexsort(columns[::-1]).tolist()


@given(st.lists(st.integers(0, 9) | st.sampled_from(EXTREMES)))
def test_keys_are_numbered_as_they_are_first_seen(way, keys):
    slots, distinct = ordering.group(np.array(keys, dtype=np.int64))
    assert distinct.tolist() == list(dict.fromkeys(keys))
    assert distinct[slots].tolist() == keys


@given(st.lists(st.integers(0, 9)))
def test_codes_are_numbered_as_they_are_first_seen(way, codes):
    slots, distinct = ordering.group(np.array(codes, dtype=np.int64), 10)
    assert distinct.tolist() == list(dict.fromkeys(codes))
    assert distinct[slots].tolist() == codes


def test_many_keys_outgrow_the_table(way):
    keys = np.random.default_rng(2).integers(-(2**63), 2**63 - 1, 20_000)
    slots, distinct = ordering.group(np.concatenate([keys, keys]))
    assert distinct[slots].tolist() == [*keys.tolist(), *keys.tolist()]
    assert len(set(distinct.tolist())) == len(distinct)


@pytest.mark.parametrize("code", [-1, 3])
def test_a_code_out_of_range_is_an_error(way, code):
    with pytest.raises(IndexError, match=r"^a code is not between 0 and 2$"):
        ordering.group(np.array([0, code]), 3)


def test_the_latest_time_so_far_never_falls():
    assert ordering.running_max(np.array([3, 1, 4, 1, 5])).tolist() == [3, 3, 4, 4, 5]


def test_a_marker_cuts_before_the_events_of_its_time():
    times = np.array([1, 2, 2, 5])
    assert ordering.cut(times, np.array([2, 5, 9])).tolist() == [1, 3, 4]
    assert ordering.cut(times, np.array([2, 5, 9]), markers_first=False).tolist() == [3, 4, 4]
