"""The fingerprint of a program is made of its code: the same in every process, another for other code."""

import functools
import json
import math
import subprocess
import sys
from typing import NamedTuple

import pytest
from pyspark import cloudpickle

from anabranch import Program, depends, load, on
from anabranch.eventtime.windows.panes import Fold
from anabranch.eventtime.windows.window_types import Sessions, Sliding, Tumbling
from anabranch.query import aggregate, asof_join, band_join, interval_join, window_join
from anabranch.savepoints.codeprints import describe_value
from anabranch.savepoints.program_fingerprint import fingerprint_program
from anabranch.state import Count, MapOf, Max, Struct, Sum
from tests.golden import stories
from tests.microbatch import programs, state_programs
from tests.query.oracles import Click, Show

SCALE = 2


class Sample(NamedTuple):
    time: int
    k: int
    v: int


class Rate:
    """A setting without a repr, called by an update."""

    def __init__(self, by):
        self.by = by

    def apply(self, value):
        return self.by * value


def double(event):
    return SCALE * event.v


def through(value):
    return half(value) + 1


def half(value):
    return value // 2


def made_with(rate):
    return on(Sample, update=lambda s, e: s + rate.apply(e.v))


def keyed(handler):
    return Program(handler, depends(Sample, Sample, same="k"), state=MapOf(Sum(), by="k"))


def windows(**folds):
    return aggregate(Sample, Tumbling(10), per="k", **folds)


OWN = {
    "a lambda in a window": lambda: windows(top=(Max(), lambda e: 2 * e.v)),
    "a helper in a window": lambda: windows(top=(Max(), double)),
    "a fold": lambda: windows(total=Fold(0, lambda s, e: s + e.v, lambda a, b: a + b)),
    "sessions": lambda: aggregate(Sample, Sessions(5), n=Count(), top=(Max(), lambda e: -e.v)),
    "an object in a closure": lambda: keyed(made_with(Rate(3))),
    "a helper of a helper": lambda: keyed(on(Sample, update=lambda s, e: s + through(e.v))),
    "a partial": lambda: keyed(on(Sample, update=functools.partial(lambda by, s, e: s + by, 4))),
    "a set and a module": lambda: keyed(
        on(Sample, update=lambda s, e: s + (e.v in {"a", "b", "c", "d"}) + math.floor(e.v))
    ),
    "a default": lambda: keyed(on(Sample, update=lambda s, e, by=frozenset("abcd"): s + len(by))),
    "interval join": lambda: interval_join(
        Show, Click, on="ad", lower=0, upper=9, select=lambda a, b: (a, b)
    ),
    "window join": lambda: window_join(Show, Click, on="ad", window=Sliding(6, every=2)),
    "as-of join": lambda: asof_join(Show, Click, on="ad", within=5),
    "band join": lambda: band_join(
        Show, Click, left="price", right="limit", low=0, high=1, lower=0, upper=9
    ),
}
EXAMPLES = [
    "busy_airports", "card_watch", "click_through", "ewma", "exchange", "fraud", "inc_dec", "key_counter",
    "max_temperature", "page_view", "smart_home", "taxi_tips", "value_barrier",
]  # fmt: skip


def list_programs():
    """Return every kind of program that the tests know."""
    found = {f"own, {name}": make() for name, make in OWN.items()}
    found |= {f"example, {name}": load(f"examples/{name}.py") for name in EXAMPLES}
    for module in (programs, state_programs, stories):
        for name, value in vars(module).items():
            if isinstance(value, Program):
                found[f"{module.__name__}, {name}"] = value
            if isinstance(value, dict):
                parts = {n: p for n, p in value.items() if isinstance(p, Program)}
                found |= {f"{module.__name__}, {name}, {n}": p for n, p in parts.items()}
    return found


def take_prints():
    return {name: fingerprint_program(program) for name, program in list_programs().items()}


def test_fingerprints_are_the_same_in_a_new_process():
    here = take_prints()
    assert len(here) > 60
    code = "import json; from tests.savepoints.test_fingerprints import *; print(json.dumps(take_prints()))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(told.stdout) == here


def test_fingerprints_are_the_same_after_a_program_has_travelled():
    module = sys.modules[__name__]
    for by_value in (False, True):
        if by_value:
            for each in (module, programs, state_programs, stories):
                cloudpickle.register_pickle_by_value(each)
        try:
            for name, program in list_programs().items():
                again = cloudpickle.loads(cloudpickle.dumps(program))
                assert fingerprint_program(again) == fingerprint_program(program), name
        finally:
            if by_value:
                for each in (module, programs, state_programs, stories):
                    cloudpickle.unregister_pickle_by_value(each)


CHANGED = {
    "a constant": (lambda e: e.v + 1, lambda e: e.v + 2),
    "a name": (lambda e: e.v, lambda e: e.k),
    "a helper": (lambda e: half(e.v), double),
    "a default": (lambda e, by=1: e.v * by, lambda e, by=2: e.v * by),
    "a closure": (made_with(Rate(1)).update, made_with(Rate(2)).update),
    "a partial": (functools.partial(max, 1), functools.partial(max, 2)),
    "a state": (Struct(n=Count()), Struct(n=Sum())),
}


@pytest.mark.parametrize("name", CHANGED)
def test_other_code_has_another_description(name):
    one, two = CHANGED[name]
    assert describe_value(one) == describe_value(one)
    assert describe_value(one) != describe_value(two)


def test_a_helper_that_changed_is_noticed_and_a_docstring_is_not():
    def load_from(body):
        scope = {"__name__": "users"}
        exec(body + "\ndef update(s, e):\n    return helper(s)\n", scope)
        return describe_value(scope["update"])

    plain = load_from("def helper(s):\n    return s + 1")
    assert plain == load_from("def helper(s):\n    'Add one.'\n    return s + 1")
    assert plain != load_from("def helper(s):\n    return s + 2")
