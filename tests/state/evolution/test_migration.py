"""State of an older program becomes what plain Python would make of each value, or is refused by name."""

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from anabranch import Event, Map, Program, State, depends, load, on
from anabranch.errors import ProgramError
from anabranch.eventtime.channels import end_channels
from anabranch.eventtime.windows.window_types import Sessions, Sliding, Tumbling
from anabranch.model.shapes import BASE
from anabranch.model.targets import load_module
from anabranch.query import aggregate, asof_join, interval_join, window_join
from anabranch.reference.sequential import run
from anabranch.state import (
    Count,
    Default,
    Drop,
    ExactSum,
    MapOf,
    Max,
    Mean,
    Median,
    Rekey,
    Rename,
    Reshape,
    Retype,
    Struct,
    Sum,
    TopK,
)
from anabranch.state.durable.codec import make_codec
from anabranch.state.durable.kinds import UNKNOWN, describe_type, describe_value
from anabranch.state.evolution.fitting import accepts
from anabranch.state.evolution.migration import EvolutionError, Migration, compare
from anabranch.state.evolution.schemas import describe_program, describe_snapshot
from tests.state.evolution.carrying import (
    OLD,
    STATE,
    Hour,
    Tick,
    carry,
    keyed,
    record,
    refusals,
    save,
    stats,
)
from tests.state.values import spell

ROOT = Path(__file__).parents[3]


# Every example, as it is.


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples").glob("*.py")), ids=lambda file: file.stem
)
def test_a_program_takes_over_its_own_state_as_it_is(file):
    program, module = load(str(file)), load_module(str(file))
    answer = run(program, end_channels(module.events, channels=module.channels), module.channels)
    schema, tables = save(program, answer.state, events=[event.data for event in answer.pending])
    assert {one.status for one in compare(schema, program)} == {"same"}
    migration = Migration(schema, program)
    assert spell(migration.migrate_state(migration.read_state(tables))) == spell(answer.state)


# One change after the other.


@pytest.mark.parametrize(
    ("fields", "changes", "entry"),
    [
        ({"total": int, "count": int}, (), (10, 1)),
        ({"seen": int, "total": int}, (Rename("Stats", "count", "seen"),), (1, 10)),
        ({"total": int}, (Drop("Stats", "count"),), (10,)),
        ({"count": int, "total": int, "first": str}, (Default("Stats", "first", "x"),), (1, 10, "x")),
        ({"count": int, "total": Decimal}, (), (1, Decimal(10))),
        ({"count": Fraction, "total": int | None}, (), (Fraction(1), 10)),
        ({"count": int, "total": float}, (Retype("Stats", "total", float),), (1, 10.0)),
        ({"count": int, "sum": str}, (Rename("Stats", "total", "sum"), Retype("Stats", "sum", str)), (1, "10")),
        (
            {"count": int, "total": int},
            (Rename("Stats", "count", "other"), Rename("Stats", "total", "count"), Rename("Stats", "other", "total")),
            (10, 1),
        ),
        ({"total": int, "c": int}, (Rename("Stats", "count", "b"), Rename("Stats", "b", "c")), (10, 1)),
        ({"total": int}, (Rename("Stats", "count", "b"), Drop("Stats", "b")), (10,)),
        ({"total": int}, (Retype("Stats", "count", str), Drop("Stats", "count")), (10,)),
        ({"total": str, "c": str}, (
            Retype("Stats", "count", lambda x: x + 1), Rename("Stats", "count", "c"), Retype("Stats", "c", str),
            Retype("Stats", "total", str)), ("10", "2")),
        ({"count": int, "total": int}, (Drop("Stats", "total"), Default("Stats", "total", 0)), (1, 0)),
        (
            {"count": int, "total": int},
            (Retype("Stats", "total", lambda x: x + 1), Retype("Stats", "total", lambda x: x * 2)),
            (1, 22),
        ),
    ],
)  # fmt: skip
def test_a_change_does_what_it_says(fields, changes, entry):
    new = stats(**fields)
    carried = carry(keyed(OLD(0, 0)), STATE, keyed(new(*entry), *changes))
    assert type(carried["a"]) is new
    assert spell(carried["a"]) == spell(new(*entry))


@pytest.mark.parametrize(
    ("fields", "changes", "refused"),
    [
        ({"total": int}, (), [("Stats.count", "is gone")]),
        ({"count": int, "total": int, "first": int}, (), [("Stats.first", "is new, and has no default")]),
        ({"count": int, "total": float}, (), [("Stats.total", "was int and is float (which may round)")]),
        ({"count": int, "total": bool}, (), [("Stats.total", "was int and is bool")]),
        ({"count": int, "total": str}, (), [("Stats.total", "was int and is str")]),
        ({"count": int, "total": list[int]}, (), [("Stats.total", "was int and is list")]),
        (
            {"seen": int, "total": int}, (),
            [("Stats.seen", "is new, and has no default"), ("Stats.count", "is gone")],
        ),
    ],
)  # fmt: skip
def test_what_nobody_declared_is_refused(fields, changes, refused):
    new = stats(**fields)
    assert refusals(keyed(OLD(0, 0)), keyed(new(*[0] * len(fields)), *changes)) == refused


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (bool, int, "was bool and is int"),
        (int | None, int, "may be None, and now must be int"),
        (float, Decimal, "was float and is decimal"),
        (list[int], tuple[int, ...], "was list and is tuple"),
        (dict[str, int], Map[str, int], "was dict and is Map"),
        (list[str], list[int], "was str and is int"),
        (str, bytes, "was str and is bytes"),
    ],
)
def test_a_type_that_can_not_widen_is_refused(old, new, what):
    found = refusals(keyed(stats(x=old)(None)), keyed(stats(x=new)(None)))
    assert [emitted for _, emitted in found] == [what]


def test_a_field_can_not_take_the_name_of_another():
    new = keyed(stats(total=int)(0), Rename("Stats", "count", "total"))
    assert ("Stats.total", "would be two fields") in refusals(keyed(OLD(0, 0)), new)


def test_a_retype_of_a_field_that_nobody_has_is_refused():
    for record_name, field_name in (("Statz", "total"), ("Stats", "totl")):
        new = keyed(OLD(0, 0), Retype(record_name, field_name, double))
        assert refusals(keyed(OLD(0, 0)), new) == [
            (f"{record_name}.{field_name}", "is to be retyped, and neither program has it")
        ]


def test_an_item_widens_wherever_it_is():
    old, new = stats(x=dict[str, list[int | None]]), stats(x=dict[str, list[Decimal | None]])
    carried = carry(keyed(old({})), Map({"a": old({"k": [1, None]})}), keyed(new({})))
    assert spell(carried["a"]) == spell(new({"k": [Decimal(1), None]}))


@dataclass(frozen=True)
class Hidden:
    _total: int
    n: int = 0


def test_a_field_that_begins_with_an_underscore_is_carried_over():
    program = keyed(Hidden(0))
    assert carry(program, Map({"a": Hidden(3, 4)}), program) == Map({"a": Hidden(3, 4)})


def test_what_happens_by_itself_is_said():
    old, new = stats(x=int, y=int, z=Any), stats(z=int, y=Decimal, x=int | None)
    emitted = compare(describe_program(keyed(old(0, 0, 0))), keyed(new(0, Decimal(0), 0)))
    assert [(one.status, one.place, one.what) for one in emitted][:4] == [
        ("automatic", "Stats.z", "could be anything, and is checked to be int"),
        ("automatic", "Stats.y", "widens from int to decimal"),
        ("automatic", "Stats.x", "may now be None"),
        ("automatic", "Stats", "has its fields in another order"),
    ]


def test_a_record_is_renamed():
    new = record("Statistics", count=int, total=int)
    assert refusals(keyed(OLD(0, 0)), keyed(new(0, 0))) == [
        ("entry", "was Stats and is Statistics")
    ]
    carried = carry(keyed(OLD(0, 0)), STATE, keyed(new(0, 0), Rename("Stats", "Statistics")))
    assert spell(carried["a"]) == spell(new(1, 10))


def test_members_of_an_enum_come_and_are_renamed_but_do_not_go():
    before, after = Enum("Colour", ["RED", "BLUE"]), Enum("Colour", ["GREEN", "CRIMSON", "BLUE"])
    old, new = stats(x=before), stats(x=after)
    state = Map({"a": old(before.RED), "b": old(before.BLUE)})
    program = keyed(new(after.BLUE), Rename("Colour", "RED", "CRIMSON"))
    assert dict(carry(keyed(old(before.RED)), state, program)) == {
        "a": new(after.CRIMSON),
        "b": new(after.BLUE),
    }
    assert refusals(keyed(old(before.RED)), keyed(new(after.BLUE))) == [("Colour.RED", "is gone")]


def test_what_could_be_anything_is_checked_value_by_value():
    old, new = stats(x=Any), stats(x=int)
    program = keyed(new(0))
    assert carry(keyed(old(0)), Map({"a": old(3)}), program) == Map({"a": new(3)})
    with pytest.raises(EvolutionError, match=r"Stats.x is no int"):
        carry(keyed(old(0)), Map({"a": old("x")}), program)


def test_a_record_that_is_gone_is_refused_where_it_was_held():
    inner = record("Inner", a=int)
    old, new = stats(x=inner), stats(x=Any)
    found = refusals(keyed(old(inner(1))), keyed(new(None)))
    assert found == [("Stats.x", "holds Inner, which is gone")]


def test_a_function_that_fails_is_named_with_what_it_was_given():
    new = keyed(stats(count=int, total=str)(0, ""), Retype("Stats", "total", lambda x: x.upper()))
    with pytest.raises(
        EvolutionError, match=r"(?s)function for Stats.total failed.*AttributeError.*of 10"
    ):
        carry(keyed(OLD(0, 0)), STATE, new)


# Shapes.


def test_a_field_of_a_struct_starts_as_its_state_does():
    old = keyed(Struct(n=Count(), top=Max()))
    new = keyed(Struct(best=TopK(2), top=Max(), n=Count(), low=Max()))
    entry = Struct(n=Count(), top=Max()).init._replace(n=3, top=9)
    carried = carry(old, Map({"a": entry}), new)
    assert carried["a"]._asdict() == {"best": (), "top": 9, "n": 3, "low": None}


def test_a_whole_entry_is_made_anew():
    shape = Struct(n=Count(), top=Max())
    new = keyed(shape, Reshape(lambda n: shape.init._replace(n=n)))
    assert refusals(keyed(Count()), keyed(shape)) == [("entry", "was int and is Struct")]
    assert carry(keyed(Count()), Map({"a": 3}), new) == Map({"a": shape.init._replace(n=3)})
    back = keyed(Count(), Reshape(lambda struct: struct.n))
    assert carry(keyed(shape), Map({"a": shape.init._replace(n=3)}), back) == Map({"a": 3})


def test_older_records_in_what_a_function_made_are_carried_over_too():
    inner, inner_now = record("Inner", a=int), record("Inner", b=int)
    old, new = stats(x=inner), stats(x=list[inner_now])
    program = keyed(
        new([]), Retype("Stats", "x", lambda one: [one, one]), Rename("Inner", "a", "b")
    )
    carried = carry(keyed(old(inner(1))), Map({"k": old(inner(5))}), program)
    assert spell(carried["k"]) == spell(new([inner_now(5), inner_now(5)]))


def test_a_sum_may_become_any_number_and_stays_what_it_is():
    assert (
        carry(keyed(Sum()), Map({"a": 1.5, "b": 2, "c": Decimal("1.10")}), keyed(Sum()))["a"] == 1.5
    )


def test_a_sum_becomes_a_count_only_if_it_is_one():
    assert carry(keyed(Sum()), Map({"a": 2}), keyed(Count())) == Map({"a": 2})
    with pytest.raises(EvolutionError, match="entry is no int"):
        carry(keyed(Sum()), Map({"a": 1.5}), keyed(Count()))


POINT = record("Point", x=float, event_types=list[str])


@pytest.mark.parametrize(
    ("annotation", "value", "fits"),
    [
        (POINT, POINT(1.0, ["a"]), True),
        (POINT, POINT(1, []), True),
        (POINT, POINT("1", []), False),
        (POINT, POINT(1.0, [2]), False),
        (POINT, record("Other", x=float, event_types=list[str])(1.0, []), False),
        (float, 3, True),
        (float, 2**70, True),
        (int, 3.0, False),
        (int, True, False),
        (int | None, None, True),
        (int, None, False),
        (tuple[int, ...], (1, 2), True),
        (tuple[int, ...], (1, "2"), False),
        (tuple[int, str], (1, "2"), True),
        (tuple[int, str], (1, 2), False),
        (tuple[int, str], (1,), False),
        (dict[str, int], {"a": 1}, True),
        (dict[str, int], {1: 1}, False),
        (dict[str, int], {"a": "b"}, False),
        (dict[str, int], Map({"a": 1}), False),
        (set[int], [1], False),
        (Decimal, Decimal("1.1"), True),
        (Any, object, True),
    ],
)
def test_a_value_fits_where_its_annotation_says_so(annotation, value, fits):
    found = describe_value(value) if value is not object else UNKNOWN
    assert accepts(describe_type(annotation), found) is fits


def test_a_state_without_entries_is_carried_over():
    old = Program(on(Tick), depends(Tick, Tick), init=OLD(0, 0))
    new = Program(
        on(Tick), depends(Tick, Tick), init=stats(total=int)(0), changes=[Drop("Stats", "count")]
    )
    assert carry(old, OLD(1, 10), new) == (10,)


# Keys.


def add(a: Any, b: Any) -> Any:
    return type(a)(*(x + y for x, y in zip(a, b, strict=True)))


def test_entries_that_meet_under_a_new_key_are_joined():
    new = keyed(OLD(0, 0), Rekey(lambda key: "all"), join=add)
    assert carry(keyed(OLD(0, 0)), STATE, new) == Map({"all": OLD(3, 30)})


def test_entries_that_meet_are_joined_in_the_order_of_their_keys():
    words = record("Words", all=str)
    state = Map({"b": words("b"), "a": words("a"), "c": words("c")})
    schema = describe_snapshot(keyed(words("")), state, {}, [])
    new = keyed(words(""), Rekey(lambda key: "all"), join=add)
    assert Migration(schema, new).migrate_state(state) == Map({"all": words("abc")})


def test_entries_that_meet_without_a_join_are_refused():
    with pytest.raises(EvolutionError, match="two entries get the same key 'all'"):
        carry(keyed(OLD(0, 0)), STATE, keyed(OLD(0, 0), Rekey(lambda key: "all")))


def test_a_new_key_may_look_at_the_new_entry():
    new_stats = stats(total=int)
    new = keyed(
        new_stats(0), Rekey(lambda key, entry: f"{key}{entry.total}"), Drop("Stats", "count")
    )
    assert carry(keyed(OLD(0, 0)), STATE, new) == Map({"a10": new_stats(10), "b20": new_stats(20)})


class Visit(NamedTuple):
    time: int
    user: str
    page: str


def test_a_key_becomes_two_and_two_become_one():
    def program(shape: Any, *changes: Any) -> Program:
        return Program(on(Visit), depends(Visit, Visit, same="user"), state=shape, changes=changes)

    one, two = MapOf(Count(), by="user"), MapOf(MapOf(Count(), by="page"), by="user")
    assert refusals(program(one), program(two)) == [("key", "was user and is user, page")]
    split = program(two, Rekey(lambda key: (key[0], key[1:])))
    nested = Map({"a": Map({"x": 1, "y": 2}), "b": Map({"x": 5})})
    assert carry(program(one), Map({"ax": 1, "ay": 2, "bx": 5}), split) == nested
    assert carry(program(two), nested, program(one, Rekey(lambda key: key[0]))) == Map(
        {"a": 3, "b": 5}
    )
    with pytest.raises(EvolutionError, match="does not return one key per field"):
        carry(program(one), Map({"ax": 1}), program(two, Rekey(lambda key: key)))


def test_a_key_field_is_renamed_with_its_event():
    renamed = record("Tick", time=int, user=str)
    assert refusals(keyed(Count()), keyed(Count(), by="user", event_type=renamed)) == [
        ("key", "was key and is user"),
        ("Tick.user", "is new, and has no default"),
        ("Tick.key", "is gone"),
    ]
    new = keyed(Count(), Rename("Tick", "key", "user"), by="user", event_type=renamed)
    assert carry(keyed(Count()), Map({"a": 1}), new) == Map({"a": 1})


# Lanes, deltas, events.


def laned(lanes: int | None, shape: Any, *changes: Any) -> Program:
    parts = (on(Tick), on(Hour), depends(Hour, Tick), depends(Hour, Hour))
    return Program(*parts, state=shape, lanes=lanes, changes=changes)


def test_lanes_are_joined_where_their_number_changes():
    state = Map({BASE: 100, 0: 1, 2: 5})
    assert carry(laned(4, Count()), state, laned(4, Count())) == state
    assert carry(laned(4, Count()), state, laned(2, Count())) == Map({BASE: 106})
    assert carry(laned(4, Count()), state, laned(None, Count())) == 106
    assert carry(laned(None, Count()), 7, laned(2, Count())) == Map({BASE: 7})


def test_a_new_key_sees_lanes_as_one_entry_and_those_that_meet_stay_in_their_lanes():
    shape = MapOf(Count(), by="key")
    state = Map({"a": Map({BASE: 1, 0: 2}), "b": Map({BASE: 3, 1: 5})})
    apart = laned(4, shape, Rekey(lambda key, entry: f"{key}{entry}"))
    assert carry(laned(4, shape), state, apart) == Map({"a3": state["a"], "b8": state["b"]})
    together = laned(4, shape, Rekey(lambda key: "all"))
    assert carry(laned(4, shape), state, together) == Map({"all": Map({BASE: 4, 0: 2, 1: 5})})


def test_a_new_field_counts_once_however_many_lanes_there_are():
    old, new = Struct(n=Count()), Struct(n=Count(), more=Count())
    state = Map(
        {BASE: old.init._replace(n=1), 0: old.zero._replace(n=2), 1: old.zero._replace(n=3)}
    )
    changes = (Default("Struct", "more", 50),)
    kept = carry(laned(4, old), state, laned(4, new, *changes))
    assert {lane: tuple(part) for lane, part in kept.items()} == {
        BASE: (1, 50),
        0: (2, 0),
        1: (3, 0),
    }
    assert tuple(carry(laned(4, old), state, laned(None, new, *changes))) == (6, 50)


def test_deltas_are_carried_over_as_parts():
    old, new = Struct(n=Count()), Struct(n=Count(), more=Count())
    schema = describe_snapshot(laned(None, old), old.init, {"state": old.zero._replace(n=3)}, [])
    migration = Migration(schema, laned(None, new, Default("Struct", "more", 50)))
    assert tuple(migration.migrate_delta("state", old.zero._replace(n=3))) == (3, 0)
    assert tuple(migration.migrate_state(old.init)) == (0, 50)


def test_deltas_have_no_key_that_depends_on_a_whole_entry():
    old = keyed(Count())
    schema = describe_snapshot(old, Map({"a": 1}), {"state": Map({"a": 1})}, [])
    new = keyed(Count(), Rekey(lambda key, entry: entry))
    with pytest.raises(
        EvolutionError, match="has parts of entries, of which no key can be computed"
    ):
        Migration(schema, new)
    fine = Migration(schema, keyed(Count(), Rekey(lambda key: key * 2)))
    assert fine.migrate_delta("state", Map({"a": 1})) == Map({"aa": 1})


def test_a_state_type_that_is_gone_is_refused_only_if_it_holds_something():
    def several(*names: str) -> Program:
        return Program(*(State(name, on(Tick), on(Hour), state=Count()) for name in names))

    new = several("whole")
    empty = describe_snapshot(several("whole", "part"), 3, {}, [])
    assert Migration(empty, new).migrate_state(3) == 3
    with pytest.raises(
        EvolutionError, match="state type 'part' is gone, and the savepoint still has"
    ):
        Migration(describe_snapshot(several("whole", "part"), 3, {"part": 1}, []), new)
    assert refusals(several("whole", "part"), new) == []


def test_pending_events_are_carried_over():
    after = record("Tick", time=int, key=str, weight=Decimal)
    old, new = (
        keyed(Count()),
        keyed(Count(), Default("Tick", "weight", Decimal(1)), event_type=after),
    )
    migration = Migration(describe_snapshot(old, Map(), {}, [Tick(3, "a")]), new)
    event = migration.codec.decode(make_codec(old).encode(Tick(3, "a")))
    assert spell(migration.migrate_event(event)) == spell(after(3, "a", Decimal(1)))
    assert refusals(old, keyed(Count(), event_type=after)) == [
        ("Tick.weight", "is new, and has no default")
    ]


def test_an_event_type_that_is_gone_is_refused_only_if_events_are_pending():
    old, new = laned(None, Count()), Program(on(Tick), depends(Tick, Tick), state=Count())
    assert Migration(describe_snapshot(old, 3, {}, [Tick(1, "a")]), new).migrate_state(3) == 3
    with pytest.raises(
        EvolutionError, match="event Hour is gone, and the savepoint still has some"
    ):
        Migration(describe_snapshot(old, 3, {}, [Hour(1)]), new)


# Changes that were done.


def double(value: int) -> int:
    return value * 2


def test_a_change_is_not_done_twice():
    change = Retype("Stats", "total", double)
    old, new = keyed(OLD(0, 0)), keyed(OLD(0, 0), change)
    once = carry(old, STATE, new)
    assert once["a"] == OLD(1, 20)
    assert carry(new, once, new) == once
    later = keyed(OLD(0, 0), change, Retype("Stats", "total", lambda value: value + 1))
    assert carry(new, once, later)["a"] == OLD(1, 21)
    assert carry(old, STATE, later)["a"] == OLD(1, 21)


def test_a_rename_that_was_done_does_not_take_a_new_field_of_the_old_name():
    both = stats(count=int, seen=int, total=int)
    program = keyed(both(0, 0, 0), Rename("Stats", "count", "seen"), Default("Stats", "count", 0))
    state = Map({"a": both(5, 1, 10)})
    assert carry(program, state, program) == state
    assert carry(keyed(OLD(0, 0)), STATE, program)["a"] == both(0, 1, 10)


def test_another_function_for_the_same_field_is_refused_unless_it_has_a_name():
    before = keyed(OLD(0, 0), Retype("Stats", "total", double))
    with pytest.raises(
        EvolutionError, match=r"Stats.total already has a retype by another function"
    ):
        carry(before, STATE, keyed(OLD(0, 0), Retype("Stats", "total", lambda value: value + 1)))
    named = keyed(OLD(0, 0), Retype("Stats", "total", lambda value: value + 1, name="one more"))
    assert carry(before, STATE, named)["a"] == OLD(1, 11)
    renamed = keyed(OLD(0, 0), Retype("Stats", "total", lambda value: value + 99, name="one more"))
    assert carry(named, STATE, renamed) == STATE


def test_a_function_is_known_by_its_code_not_by_its_name_or_place():
    def identity(function: Any) -> Any:
        return Retype("Stats", "total", function).identity

    assert (
        identity(double) == identity(lambda value: value * 2) != identity(lambda value: value * 3)
    )
    assert identity(float) != identity(int)
    assert identity(partial(max, 1)) != identity(partial(max, 2))
    assert identity(lambda value: value in {"a", "b", "c"}) == identity(
        lambda value: value in {"c", "b", "a"}
    )


def test_a_new_key_looks_at_the_entry_only_if_it_must():
    assert [Rekey(f).sees_entry for f in (str.lower, lambda key, by="-": key, lambda key, entry: key)] == [
        False, False, True,
    ]  # fmt: skip


# What is said.


def test_every_refusal_is_said_at_once(message):
    new = stats(seen=int, total=float)
    with pytest.raises(EvolutionError) as caught:
        carry(keyed(OLD(0, 0)), STATE, keyed(new(0, 0.0), by="time"))
    message("state_that_does_not_fit", str(caught.value))


def test_a_change_that_is_none_is_refused(message):
    with pytest.raises(ProgramError) as caught:
        keyed(Count(), "rename it")
    message("changes_of_a_string", str(caught.value))
    with pytest.raises(ProgramError, match="a class, not an instance"):
        keyed(Count(), Rename)


def test_two_savepoints_can_be_compared_without_a_program():
    old, new = describe_program(keyed(OLD(0, 0))), describe_program(keyed(stats(count=int)(0)))
    statuses = {(one.status, one.place) for one in compare(old, new)}
    assert ("refused", "Stats.total") in statuses
    assert ("same", "Stats.count") in statuses


class Show(NamedTuple):
    time: int
    key: str
    price: int


SHOWS = [Event(Show(n, "ab"[n % 2], n), "shows", n) for n in range(30)]
TICKS = [Event(Tick(n, "ab"[n % 2]), "ticks", n) for n in range(28)]


@pytest.mark.parametrize(
    "program",
    [
        interval_join(Show, Tick, on="key", lower=0, upper=5, how="left"),
        window_join(Show, Tick, on="key", window=Tumbling(5), how="full"),
        asof_join(Show, Tick, on="key", how="left"),
        aggregate(Show, Tumbling(7), per="key", n=Count(), top=(Max(), "price"), mean=(Mean(), "price")),
        aggregate(Show, Sliding(7, 3), middle=(Median(), "price"), few=(TopK(2), "price")),
        aggregate(Show, Sessions(7), per="key", n=Count(), sum=(ExactSum(), "price")),
    ],
    ids=["interval", "window", "as of", "tumbling", "sliding", "sessions"],
)  # fmt: skip
def test_windows_and_joins_take_over_their_own_state(program):
    brought = {event_type.__name__ for event_type in program.inputs}
    items = [item for item in (*SHOWS, *TICKS) if item.event_type.__name__ in brought]
    answer = run(program, items)
    assert answer.state != program.init
    schema, tables = save(program, answer.state, events=[event.data for event in answer.pending])
    assert {one.status for one in compare(schema, program)} == {"same"}
    migration = Migration(schema, program)
    assert spell(migration.migrate_state(migration.read_state(tables))) == spell(answer.state)
