"""A checkpoint knows what made it, also where a program was put together from options."""

import subprocess
import sys

import pytest

from anabranch import Program, on
from anabranch.eventtime.windows.window_types import Sliding, Tumbling
from anabranch.microbatch.job.fingerprint import ChangedProgramError, check_fingerprint, fingerprint
from anabranch.plan.layouts import choose_layout
from anabranch.query import asof_join, band_join, interval_join, window_join
from anabranch.state import MapOf
from tests.query.oracles import Click, Show


def interval(**options):
    return interval_join(Show, Click, **{"on": "ad", "lower": 0, "upper": 9} | options)


def window(kind):
    return window_join(Show, Click, on="ad", window=kind)


def asof(**options):
    return asof_join(Show, Click, on="ad", **options)


def band(**options):
    usual = {"left": "price", "right": "limit", "low": 0, "high": 1, "lower": 0, "upper": 9}
    return band_join(Show, Click, **usual | options)


def take_print(program):
    return fingerprint(program, choose_layout(program, 2), {})


CHANGES = {
    "upper": (interval, lambda: interval(upper=10)),
    "how": (interval, lambda: interval(how="left")),
    "a selection": (interval, lambda: interval(select=lambda a, b: a)),
    "what is selected": (
        lambda: interval(select=lambda a, b: a),
        lambda: interval(select=lambda a, b: b),
    ),
    "size": (lambda: window(Tumbling(5)), lambda: window(Tumbling(6))),
    "window": (lambda: window(Tumbling(5)), lambda: window(Sliding(5, every=5))),
    "within": (lambda: asof(within=5), lambda: asof(within=6)),
    "ties": (asof, lambda: asof(ties="left_first")),
    "band": (band, lambda: band(high=2)),
    "field": (band, lambda: band(right="ad")),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_join_with_another_option_is_another_program(name):
    before, after = CHANGES[name]
    check_fingerprint(take_print(before()), take_print(before()))
    with pytest.raises(ChangedProgramError, match="was made with other"):
        check_fingerprint(take_print(before()), take_print(after()))


def test_the_print_is_the_same_in_another_process():
    code = (
        "from tests.microbatch.job.test_fingerprint import *;"
        "print(take_print(interval(select=lambda a, b: (a, 'b')))['code'])"
    )
    prints = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert prints == {take_print(interval(select=lambda a, b: (a, "b")))["code"] + "\n"}


class Plain:
    """A shape of a user's own, without a repr."""

    by = None
    init = zero = 0

    def __init__(self, step=1):
        self.step = step

    def fork(self, state, left, right):
        return state, 0

    def join(self, a, b):
        return a + b

    def same(self, a, b):
        return a == b


class Other(Plain):
    def join(self, a, b):
        return max(a, b)


def count(shape):
    handler = on(Show, update=lambda total, show: total + 1)
    return Program(handler, state=MapOf(shape, by="ad"))


def test_a_shape_of_ones_own_is_known_by_what_it_does_not_by_where_it_is():
    taken = take_print(count(Plain()))
    check_fingerprint(taken, take_print(count(Plain())))
    for changed in (Plain(2), Other()):
        with pytest.raises(ChangedProgramError, match="code"):
            check_fingerprint(taken, take_print(count(changed)))
