import subprocess
import sys
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.model.values.hashing import hash_stably, hash_widely

keys = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)


@given(keys, keys)
def test_equal_keys_hash_alike(a, b):
    if a == b:
        assert hash_stably(a) == hash_stably(b)
    assert (hash_widely(a) == hash_widely(b)) == (a == b)


@pytest.mark.parametrize("other", [1.0, True, Decimal(1), Fraction(1)])
def test_a_number_hashes_as_its_value(other):
    assert hash_stably(other) == hash_stably(1)
    assert hash_widely(other) == hash_widely(1)


def test_a_number_with_a_fraction_hashes_as_its_value():
    assert hash_stably(Decimal("0.5")) == hash_stably(Fraction(1, 2)) == hash_stably(0.5)


@given(keys)
def test_a_hash_fits_into_32_bits(key):
    assert 0 <= hash_stably(key) < 1 << 32


def test_hashes_do_not_change_from_release_to_release():
    # State is stored by these numbers. If this fails, old state can't be found again.
    assert [hash_stably(key) for key in (0, 1, -1, "a", b"a", 1.5, (1, "a"), None)] == [
        0,
        2654435769,
        1640531526,
        3904355907,
        3904355907,
        253860321,
        2676403506,
        3751981041,
    ]


def test_hashes_are_the_same_in_another_process():
    key = frozenset({"a", "b", "c", ("d", 1)})
    code = (
        "from anabranch.model.values.hashing import hash_stably as h;"
        "print(h(frozenset({'a', 'b', 'c', ('d', 1)})))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(done.stdout) == hash_stably(key)


@pytest.mark.parametrize("count", [2, 3, 8, 16])
def test_consecutive_integers_are_spread_over_shards(count):
    shards = [hash_stably(n) % count for n in range(1000)]
    assert all(shards.count(shard) > 900 // count for shard in range(count))
