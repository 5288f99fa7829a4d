"""SQLite joins the same events: a second oracle, which knows nothing of time."""

import random
import sqlite3

import pytest

from anabranch import Event
from anabranch.eventtime.channels import end_channels
from anabranch.query import asof_join, band_join, interval_join
from anabranch.reference.sequential import run
from tests.query.oracles import HOWS, Click, Show

FULL = "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"
WORDS = dict(zip(HOWS, ("JOIN", *FULL), strict=True))


def draw(seed, size=60):
    rng = random.Random(seed)
    lefts = [Show(rng.randint(0, 90), rng.randint(0, 3), rng.randint(0, 50)) for _ in range(size)]
    # An as-of join in SQL can't tell which of two at one time is the later: there are none.
    times = rng.sample(range(90), size)
    return lefts, [Click(time, rng.randint(0, 3), rng.randint(0, 50)) for time in times]


def ask(lefts, rights, query):
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE l (id, time, ad, price)")
        database.execute('CREATE TABLE r (id, time, ad, "limit")')
        database.executemany("INSERT INTO l VALUES (?, ?, ?, ?)", number(lefts))
        database.executemany("INSERT INTO r VALUES (?, ?, ?, ?)", number(rights))
        rows = database.execute(query).fetchall()
    database.close()
    return sort(
        (None if a is None else lefts[a], None if b is None else rights[b]) for a, b in rows
    )


def number(events):
    return [(n, *event) for n, event in enumerate(events)]


def sort(rows):
    return sorted(map(tuple, rows), key=repr)


def answer(program, lefts, rights):
    items = [Event(e, "l", n) for n, e in enumerate(sorted(lefts))]
    items += [Event(e, "r", n) for n, e in enumerate(sorted(rights))]
    return sort(run(program, end_channels(items)).values)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("lower", "upper"), [(-5, 10), (0, 0), (3, 8), (-8, -3)])
@pytest.mark.parametrize("how", HOWS)
def test_oracle_an_interval_join_is_a_join_on_a_condition(how, lower, upper, seed):
    lefts, rights = draw(seed)
    program = interval_join(Show, Click, on="ad", lower=lower, upper=upper, how=how)
    assert answer(program, lefts, rights) == ask(
        lefts,
        rights,
        f"SELECT l.id, r.id FROM l {WORDS[how]} r"
        f" ON l.ad = r.ad AND r.time - l.time BETWEEN {lower} AND {upper}",
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", ["inner", "left"])
def test_oracle_an_as_of_join_is_a_join_with_the_latest(how, seed):
    lefts, rights = draw(seed)
    assert answer(asof_join(Show, Click, on="ad", how=how), lefts, rights) == ask(
        lefts,
        rights,
        f"SELECT l.id, r.id FROM l {WORDS[how]} r ON l.ad = r.ad AND r.time ="
        " (SELECT max(time) FROM r WHERE r.ad = l.ad AND r.time <= l.time)",
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("lower", "upper"), [(-9, 9), (0, 0), (3, 20), (-20, -3)])
@pytest.mark.parametrize("how", HOWS)
def test_oracle_a_band_join_is_a_join_on_two_conditions(how, lower, upper, seed):
    lefts, rights = draw(seed)
    program = band_join(
        Show, Click, left="price", right="limit",
        low=-2, high=5, lower=lower, upper=upper, how=how,
    )  # fmt: skip
    assert answer(program, lefts, rights) == ask(
        lefts,
        rights,
        f'SELECT l.id, r.id FROM l {WORDS[how]} r ON r."limit" - l.price BETWEEN -2 AND 5'
        f" AND r.time - l.time BETWEEN {lower} AND {upper}",
    )
