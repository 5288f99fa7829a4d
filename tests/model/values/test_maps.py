"""A map is a dict that never changes; every version of it stays readable."""

import copy
import pickle

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from anabranch import Map
from anabranch.model.values import maps

keys = st.integers(0, 5) | st.sampled_from(["a", "b"])
values = st.integers()


class Versions(RuleBasedStateMachine):
    """Change any version at any time, and hold each of them to a plain dict of its own."""

    known = Bundle("known")

    def __init__(self):
        super().__init__()
        self.versions: list[tuple[Map, dict]] = []

    def keep(self, version: Map, model: dict):
        self.versions.append((version, model))
        return version, model

    @rule(target=known, entries=st.dictionaries(keys, values, max_size=4))
    def start(self, entries):
        return self.keep(Map(entries), dict(entries))

    @rule(target=known, pair=known, key=keys, value=values)
    def set(self, pair, key, value):
        version, model = pair
        return self.keep(version.set(key, value), {**model, key: value})

    @rule(target=known, pair=known, key=keys)
    def remove(self, pair, key):
        version, model = pair
        left = {k: v for k, v in model.items() if k != key}
        return self.keep(version.remove(key), left)

    @rule(target=known, pair=known, count=st.integers(1, 30))
    def change_often(self, pair, count):
        version, model = pair
        for n in range(count):
            version, model = version.set(n % 3, n), {**model, n % 3: n}
        return multiple(self.keep(version, model))

    @rule(pair=known, key=keys)
    def look_up(self, pair, key):
        version, model = pair
        assert version.get(key, "absent") == model.get(key, "absent")
        assert (key in version) == (key in model)

    @rule(a=known, b=known)
    def compare(self, a, b):
        assert (a[0] == b[0]) == (a[1] == b[1])

    @invariant()
    def every_version_reads_as_it_did(self):
        for version, model in self.versions:
            assert dict(version) == model
            assert len(version) == len(model)
            assert version == model


@pytest.fixture(autouse=True)
def _short_chains(monkeypatch):
    # So short that the machine sees versions that took a copy, and versions that did not.
    monkeypatch.setattr(maps, "_CHAIN", 7)


class TestVersions(Versions.TestCase):
    settings = settings(max_examples=60, stateful_step_count=25)


def test_the_first_version_does_not_keep_all_that_followed():
    first = last = Map({"a": 0})
    for n in range(10_000):
        last = last.set("a", n)
    following, version = 0, first
    while version._newer is not None:
        following, version = following + 1, version._newer
    assert following <= 10
    assert (first["a"], last["a"]) == (0, 9999)


def test_a_long_chain_is_read_without_recursion(monkeypatch):
    monkeypatch.setattr(maps, "_CHAIN", 100_000)
    first = last = Map({"a": 0})
    for n in range(50_000):
        last = last.set("a", n)
    assert (first["a"], last["a"], first["a"]) == (0, 49_999, 0)


def test_removing_what_is_not_there_changes_nothing():
    one = Map({"a": 1})
    assert one.remove("b") is one


def test_iteration_survives_changes_on_the_way():
    entries = Map({1: "a", 2: "b", 3: "c"})
    seen = []
    for key, entry in entries.items():
        entries.set(key, "changed").remove(2)
        seen.append((key, entry))
    assert seen == [(1, "a"), (2, "b"), (3, "c")]


def test_a_copy_knows_nothing_of_later_versions():
    one = Map({"a": [1]})
    two = one.set("b", [2])
    for copied in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        assert copied == {"a": [1]}
        assert copied["a"] is not one["a"]
    assert two == {"a": [1], "b": [2]}


def test_a_map_reads_as_its_entries():
    assert repr(Map({"a": 1}).set("b", 2)) == "Map({'a': 1, 'b': 2})"


def test_a_map_is_no_key():
    with pytest.raises(TypeError, match="unhashable"):
        hash(Map())


def test_a_map_is_equal_to_maps_and_dicts_only():
    assert Map({1: 2}) == {1: 2}
    assert Map({1: 2}) != [(1, 2)]
    assert Map() != Map({1: 2})


def test_versions_of_a_map_that_are_copied_together_stay_apart():
    old = Map({"a": [1]})
    new = old.set("b", [2])
    for one, two in (copy.deepcopy((old, new)), pickle.loads(pickle.dumps((old, new)))):
        assert (one, two) == (Map({"a": [1]}), Map({"a": [1], "b": [2]}))
    again, twice = copy.deepcopy((new, new))
    assert again is twice
    assert again["a"] is not new["a"]
