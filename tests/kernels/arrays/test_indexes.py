"""An index numbers keys as they come, and finds them again: small ones, large ones, and those below zero."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernels.arrays import indexes

KEYS = st.one_of(
    st.integers(0, 20),
    st.integers(indexes._DIRECT - 2, indexes._DIRECT + 2),
    st.integers(-3, 3),
    st.integers(-(2**63), 2**63 - 1),
)


@pytest.fixture(params=["compiled", "plain"], scope="module")
def way(request):
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(indexes, "_probe", lambda: indexes.probe_plainly)
        yield


def find_all(calls):
    """Return the slots that an index gives in several calls, and its keys."""
    index = indexes.Index()
    slots = [index.find(np.array(keys, np.int64)).tolist() for keys in calls]
    return slots, index.keys.tolist()


def number_all(calls):
    known = {}
    slots = [[known.setdefault(key, len(known)) for key in keys] for keys in calls]
    return slots, list(known)


@given(calls=st.lists(st.lists(KEYS, max_size=30), max_size=5))
def test_differential_keys_are_numbered_as_a_dict_would(way, calls):
    assert find_all(calls) == number_all(calls)


def test_differential_keys_keep_their_slots_when_it_grows(way):
    rng = np.random.default_rng(4)
    calls = [
        np.concatenate(
            [rng.integers(0, 3_000, 700), rng.integers(-(2**62), 2**62, 300)]
        ).tolist()
        for _ in range(6)
    ]  # fmt: skip
    assert find_all([*calls, *calls]) == number_all([*calls, *calls])
