"""Time-to-live: what is seen is a function of the log alone, as a dict with times has it."""

import random
from typing import NamedTuple

import pytest

from anabranch import FOREVER, Event, Heartbeat, Map, Program, depends, on, take
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.laws import check
from anabranch.laws.proving.proof import prove
from anabranch.model.order import sort_events
from anabranch.model.shapes import MISSING, WrittenShape
from anabranch.model.slices import Slices
from anabranch.plan.layouts import choose_layout
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.reference.sequential import run
from anabranch.reference.simulator import rehearse
from anabranch.spark.run_explanation import explain_run
from anabranch.state import Count, MapOf, Sum
from anabranch.state.aging import Aged, Aging
from tests.microbatch.test_microbatches import Engine, cut, emitted_rows, expected_rows


class Click(NamedTuple):
    time: int
    user: str


class Look(NamedTuple):
    time: int
    user: str


class Report(NamedTuple):
    time: int


class Halve(NamedTuple):
    time: int


class Bell(NamedTuple):
    time: int
    user: str


KEYED = (
    on(Click, update=lambda n, e: n + 1, output=lambda n, e: ("click", e.user, n)),
    on(Look, output=lambda n, e: ("look", e.user, n)),
    depends(Click, Click, Look, same="user"),
    depends(Look, Look, same="user"),
)
WHOLE = (
    on(Report, output=lambda users, e: ("report", sorted(users.items()))),
    on(Halve, update=lambda users, e: Map({u: n // 2 * 2 for u, n in users.items()})),
    depends(Report, Click, Look, Halve, Report),
    depends(Halve, Click, Look, Halve),
)


def keyed(ttl, refresh="writes"):
    return Program(*KEYED, state=MapOf(Count(), by="user", ttl=ttl, refresh=refresh))


def whole(ttl, refresh="writes"):
    return Program(*KEYED, *WHOLE, state=MapOf(Count(), by="user", ttl=ttl, refresh=refresh))


def numbered(*data, channel="s"):
    return [Event(one, channel, n) for n, one in enumerate(data)]


def look_up(events, ttl, refresh):
    """Say what a plain dict of (value, time of the last refresh) says, and what is left of it."""
    users, emitted = {}, []
    for event in events:
        time = event.time
        alive = {u: n for u, (n, refreshed) in users.items() if refreshed > time - ttl}
        if isinstance(event, Click):
            emitted.append(("click", event.user, alive.get(event.user, 0)))
            users[event.user] = (alive.get(event.user, 0) + 1, time)
        elif isinstance(event, Look):
            emitted.append(("look", event.user, alive.get(event.user, 0)))
            if refresh == "reads":
                users[event.user] = (alive.get(event.user, 0), time)
        elif isinstance(event, Report):
            emitted.append(("report", sorted(alive.items())))
        else:
            for user, n in alive.items():
                if n % 2:
                    users[user] = (n - 1, time)
    return emitted, users


def draw(rng, event_types, channels, count=40):
    """Draw events whose gaps are often just the time to live, out of order within a lateness."""
    items = []
    for channel in channels:
        time = 0
        for seq in range(count // len(channels)):
            time += rng.choice((0, 1, 1, 2, 3, 7))
            event_type = rng.choice(event_types)
            at = max(0, time - rng.randint(0, channel.lateness))
            fields = () if event_type in (Report, Halve) else (rng.choice("abc"),)
            items.append(Event(event_type(at, *fields), channel.name, seq))
    return items


CHANNELS = (Channel("x", lateness=3), Channel("y", lateness=6))
CASES = [
    (make, event_types, refresh)
    for make, event_types in ((keyed, (Click, Look)), (whole, (Click, Click, Look, Report, Halve)))
    for refresh in ("writes", "reads")
]
every_case = pytest.mark.parametrize(("make", "event_types", "refresh"), CASES)


def order(program, answer, items):
    """Return the events that an answer has handled, in order."""
    missing = {id(late.event.data) for late in answer.late} | {id(e.data) for e in answer.pending}
    kept = [e for e in items if isinstance(e, Event) and id(e.data) not in missing]
    return [event.data for _, event in sort_events(program.ranks, kept)]


@every_case
def test_oracle_a_dict_with_times_says_the_same(make, event_types, refresh):
    expired = 0
    for seed in range(60):
        rng = random.Random(seed)
        ttl = rng.choice((1, 2, 3, 5, 8))
        program = make(ttl, refresh)
        items = draw(rng, event_types, CHANNELS)
        watermark = rng.randint(0, 60)
        beats = [Heartbeat(watermark, channel.name, 99) for channel in CHANNELS]
        answer = run(program, [*items, *beats], CHANNELS)
        emitted, users = look_up(order(program, answer, items), ttl, refresh)
        assert answer.values == emitted, seed
        # What is left is what an event at the next time there is would see.
        alive = {u: n for u, (n, at) in users.items() if at > answer.watermark + 1 - ttl}
        assert {u: entry.state for u, entry in answer.state.items()} == alive
        expired += len(users) - len(alive)
    assert expired


@every_case
def test_oracle_any_cut_into_batches_and_shards_says_the_same(make, event_types, refresh):
    for seed in range(12):
        rng = random.Random(seed)
        ttl = rng.choice((1, 3, 5, 8))
        program = make(ttl, refresh)
        items = end_channels(draw(rng, event_types, CHANNELS), channels=CHANNELS)
        answer = run(program, items, CHANNELS)
        assert answer.values == look_up(order(program, answer, items), ttl, refresh)[0]
        engine = Engine(program, CHANNELS, rng.choice((1, 2, 5)))
        for batch in cut(rng, items):
            engine.batch(batch)
        assert emitted_rows(engine) == expected_rows(answer), seed
        assert engine.ledger == answer.ledger
        # Nothing stays behind: no entry, and nobody to be woken.
        for store in engine.stores:
            assert not [page for page in store.pages if page[0] in ("entries", "pending")]


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@every_case
def test_differential_every_plan_says_what_the_fold_says(make, event_types, refresh, optimizer):
    for seed in range(4):
        rng = random.Random(seed)
        program = make(rng.choice((1, 3, 5)), refresh)
        items = end_channels(draw(rng, event_types, CHANNELS), channels=CHANNELS)
        answer = run(program, items, CHANNELS)
        cut_by = [event_type for event_type in program.event_types if "user" in event_type._fields]
        loads = [Load(take(event_type, user=user)) for event_type in cut_by for user in "abc"]
        loads += [
            Load(take(event_type)) for event_type in program.event_types if event_type not in cut_by
        ]
        plan = OPTIMIZERS[optimizer](program, Rates(loads))
        simulation = rehearse(program, plan, items, CHANNELS).run(seed)
        assert sorted((o.id, o.value) for o in simulation.outputs) == sorted(
            (o.id, o.value) for o in answer.outputs
        )
        assert simulation.ledger == answer.ledger


@every_case
def test_the_laws_are_kept(make, event_types, refresh):
    report = check(make(4, refresh), cases=60, seed=3)
    assert report.ok, str(report)


def test_nothing_is_proved_of_what_expires():
    reasons = {proof.reason for proof in prove(keyed(5))}
    assert reasons == {"not supported: entries of the state have a time to live"}


def test_what_was_refreshed_exactly_so_long_ago_is_gone():
    at = [Click(0, "a"), Look(9, "a"), Look(10, "a"), Click(20, "a"), Click(29, "a"), Look(38, "a")]
    answer = run(keyed(10), end_channels(numbered(*at)))
    assert [n for _, _, n in answer.values] == [0, 1, 0, 0, 1, 2]


def test_reads_refresh_only_if_they_are_asked_to():
    at = [Click(0, "a"), Look(8, "a"), Look(12, "a")]
    assert run(keyed(10), end_channels(numbered(*at))).values[-1] == ("look", "a", 0)
    assert run(keyed(10, "reads"), end_channels(numbered(*at))).values[-1] == ("look", "a", 1)


def test_a_look_at_nothing_leaves_nothing():
    answer = run(keyed(10), [*numbered(Look(5, "a")), Heartbeat(6, "s", 1)])
    assert answer.state == {}


def test_an_event_that_fails_does_not_refresh():
    program = Program(
        on(Click, update=lambda n, e: n + 1 // (e.time % 5), output=lambda n, e: n),
        depends(Click, Click, same="user"),
        state=MapOf(Count(), by="user", ttl=10),
    )
    answer = run(program, end_channels(numbered(*(Click(t, "a") for t in (1, 5, 12)))))
    assert answer.values == [0, 0]
    assert answer.ledger.rejected == 1


def test_an_entry_asks_for_one_wake_at_a_time_however_often_it_is_refreshed():
    engine = Engine(keyed(1000), (Channel("s"),), 1)
    rows = numbered(*(Click(t, "a") for t in range(500)))
    for batch in cut(random.Random(1), rows):
        engine.batch(batch)
    held = sum(len(p) for name, p in engine.stores[0].pages.items() if name[0] == "pending")
    assert held < 200  # One event that is not stable, and one wake.
    assert engine.ledger.pending == 1


def test_entries_within_entries_expire_one_by_one_and_leave_no_empty_map():
    class Buy(NamedTuple):
        time: int
        user: str
        item: str

    class Cart(NamedTuple):
        time: int
        user: str

    program = Program(
        on(Buy, update=lambda n, e: n + 1),
        on(Cart, output=lambda items, e: dict(items), update=lambda items, e: items),
        depends(Buy, Buy, same=("user", "item")),
        depends(Cart, Buy, Cart, same="user"),
        state=MapOf(MapOf(Count(), by="item", ttl=10), by="user"),
    )
    items = numbered(
        Buy(0, "u", "x"),
        Buy(5, "u", "y"),
        Cart(9, "u"),
        Cart(10, "u"),
        Cart(15, "u"),
        Cart(16, "v"),
    )
    answer = run(program, [*items, Heartbeat(14, "s", 9)])
    assert answer.values == [{"x": 1, "y": 1}, {"y": 1}, {}]
    assert answer.state == {}
    ended = end_channels(items)
    engine = Engine(program, (Channel("s"),), 3)
    for batch in cut(random.Random(0), ended):
        engine.batch(batch)
    assert emitted_rows(engine) == expected_rows(run(program, ended))
    assert check(program, cases=60, seed=1).ok


def test_a_timer_of_the_users_own_sees_the_state_and_comes_before_the_end():
    program = Program(
        on(Click, update=lambda n, e: e.time),
        on(Bell, due=lambda n: n + 9, output=lambda n, e: (e.time, n)),
        depends(Click, Click, same="user"),
        state=MapOf(WrittenShape(0), by="user", ttl=10),
    )
    assert run(program, end_channels(numbered(Click(5, "a")))).values == [(14, 5)]
    late = program.changed(state=MapOf(WrittenShape(0), by="user", ttl=9))
    assert run(late, end_channels(numbered(Click(5, "a")))).values == []


def test_a_timer_above_the_entries_sees_their_states():
    program = Program(
        on(Click, update=lambda n, e: n + 1),
        on(Report, due=lambda users: 7 if users else None, output=lambda users, e: dict(users)),
        depends(Click, Click, same="user"),
        state=MapOf(Count(), by="user", ttl=10),
    )
    assert run(program, end_channels(numbered(Click(5, "a")))).values == [{"a": 1}]


def test_what_is_as_it_began_is_not_kept_where_the_map_is_sparse():
    program = Program(
        on(Click, update=lambda n, e: 1 - n),
        depends(Click, Click, same="user"),
        state=MapOf(WrittenShape(0), by="user", ttl=10, sparse=True),
    )
    beat = Heartbeat(5, "s", 9)
    assert run(program, [*numbered(Click(1, "a"), Click(2, "a")), beat]).state == {}
    assert set(run(program, [*numbered(Click(1, "a")), beat]).state) == {"a"}


def test_an_end_beyond_all_time_is_the_end_of_time():
    answer = run(keyed(FOREVER - 1), end_channels(numbered(Click(5, "a"), Look(FOREVER - 1, "a"))))
    assert answer.values == [("click", "a", 0), ("look", "a", 1)]
    assert answer.state == {}


def test_a_state_per_key_with_an_end_stays_in_the_shard_of_its_key():
    assert choose_layout(keyed(5), 4).way == "keyed"
    assert choose_layout(whole(5), 4).way == "sequential"


def test_the_run_says_that_it_does_not_go_by_columns():
    assert explain_run(keyed(5)) == [
        "keyed: different values of user are independent",
        "row path: entries have a time to live (each access sets a timer)",
    ]


def test_an_entry_joins_by_the_later_refresh_and_the_earlier_alarm():
    shape = Aging(Sum(), 10)
    a, b = Aged(3, 5, 14), Aged(4, 7, 12)
    assert shape.join(a, b) == shape.join(b, a) == Aged(7, 7, 12)
    assert shape.join(a, shape.zero) == a
    assert shape.join(*shape.fork(a, Slices(), Slices())) == a
    assert not shape.same(a, a._replace(refreshed=6))
    written = Aging(WrittenShape(0), 10)
    assert written.fork is None
    assert written.zero is MISSING


def test_the_map_and_its_parts_say_how_they_were_made():
    text = "MapOf(inner=Aging(inner=Count(start=0), ttl=5, refresh='writes'), by='user')"
    assert repr(MapOf(Count(), by="user", ttl=5)).replace(", by=None", "") == text
