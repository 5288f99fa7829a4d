"""State of an older program becomes what plain Python would make of each value, or is refused by name."""

import json
import random
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch import Map, Program, State, depends, load, on
from anabranch.errors import ProgramError
from anabranch.eventtime.sources import end_sources
from anabranch.model.shapes import BASE, WrittenShape
from anabranch.model.targets import load_module
from anabranch.reference.sequential import run
from anabranch.state import (
    Count,
    Default,
    Drop,
    MapOf,
    Max,
    Rekey,
    Rename,
    Reshape,
    Retype,
    Struct,
    Sum,
    TopK,
)
from anabranch.state.codec import make_codec
from anabranch.state.evolution import EvolutionError, Migration, compare
from anabranch.state.schemas import (
    describe_program,
    describe_snapshot,
    list_entries,
    read_schema,
    write_schema,
)
from anabranch.state.tables import to_table
from tests.state.values import spell

ROOT = Path(__file__).parents[2]


class Tick(NamedTuple):
    time: int
    key: str


class Hour(NamedTuple):
    time: int


def keyed(
    init: Any, *changes: Any, join: Any = None, by: str = "key", tag: type = Tick, **options: Any
) -> Program:
    """Return a program with one entry per key; a shape is taken as it is."""
    shape = (
        init
        if hasattr(init, "same")
        else WrittenShape(init, join=join, fork=join and (lambda s, left, right: (s, s)))
    )
    return Program(
        on(tag), depends(tag, tag, same=by), state=MapOf(shape, by=by), changes=changes, **options
    )


def save(
    program: Program, state: Any, deltas: Any = None, events: Any = ()
) -> tuple[Any, list[Any]]:
    """Return the schema and the tables that a savepoint would keep."""
    schema = describe_snapshot(program, state, deltas or {}, events)
    codec = make_codec(program)
    pairs = list_entries(schema.state, state, codec)
    half = len(pairs) // 2
    parts = [pairs[:half], pairs[half:]]
    tables = [to_table(schema.state.key, schema.state.entry, part, codec) for part in parts if part]
    return read_schema(json.loads(json.dumps(write_schema(schema)))), tables


def carry(old: Program, state: Any, new: Program) -> Any:
    """Return an older state in a newer program, by way of its tables."""
    schema, tables = save(old, state)
    migration = Migration(schema, new)
    return migration.migrate_state(migration.read_state(tables))


def refusals(old: Program, new: Program) -> list[tuple[str, str]]:
    verdicts = compare(describe_program(old), new)
    return [(one.place, one.what) for one in verdicts if one.status == "refused"]


# Every example, as it is.


@pytest.mark.parametrize(
    "file", sorted((ROOT / "examples").glob("*.py")), ids=lambda file: file.stem
)
def test_a_program_takes_over_its_own_state_as_it_is(file):
    program, module = load(str(file)), load_module(str(file))
    answer = run(program, end_sources(module.events, module.sources), module.sources)
    schema, tables = save(program, answer.state, events=[event.data for event in answer.pending])
    assert {one.status for one in compare(schema, program)} == {"same"}
    migration = Migration(schema, program)
    assert spell(migration.migrate_state(migration.read_state(tables))) == spell(answer.state)


# Random records in records, random changes, against plain dicts.

PLAIN = {"int": int, "str": str, "float": float, "maybe": int | None, "decimal": Decimal}
NAMES = ["a", "b", "c", "d"]


def describe_field(kind: str, inner: type) -> Any:
    nested = {
        "inner": inner, "inners": list[inner], "named": dict[str, inner],
        "pair": tuple[inner, int], "maybe inner": inner | None, "anything": Any,
    }  # fmt: skip
    return PLAIN.get(kind) or nested[kind]


def draw_value(kind: str, inner: type, fields: dict[str, str], rng: random.Random) -> Any:
    def make() -> Any:
        return inner(**{name: draw_value(part, inner, {}, rng) for name, part in fields.items()})

    match kind:
        case "int":
            return rng.choice([0, 1, -5, 2**70])
        case "str":
            return rng.choice(["", "x", "ü"])
        case "float":
            return rng.choice([0.5, -0.0, float("inf")])
        case "maybe":
            return rng.choice([None, 3])
        case "decimal":
            return Decimal(rng.choice(["1.10", "3"]))
        case "inner":
            return make()
        case "inners":
            return [make() for _ in range(rng.randrange(3))]
        case "named":
            return {name: make() for name in rng.sample("xyz", rng.randrange(3))}
        case "pair":
            return (make(), rng.randrange(9))
        case "maybe inner":
            return rng.choice([None, make()])
        case "anything":
            return rng.choice([1, "x", make(), [make()], {"k": make()}])
    raise AssertionError(kind)


def to_plain(value: Any) -> Any:
    """Return a value with dicts for its records, so that nothing but names and values is compared."""
    if hasattr(value, "_fields"):
        return {
            "": type(value).__name__,
            **{name: to_plain(getattr(value, name)) for name in value._fields},
        }
    if hasattr(value, "__dataclass_fields__"):
        names = value.__dataclass_fields__
        return {
            "": type(value).__name__,
            **{name: to_plain(getattr(value, name)) for name in names},
        }
    if isinstance(value, list | tuple):
        return (type(value).__name__, *map(to_plain, value))
    if isinstance(value, dict):
        return {("key", key): to_plain(entry) for key, entry in value.items()}
    return (
        spell(value) if not isinstance(value, int | Decimal) else (type(value).__name__, str(value))
    )


def migrate_plainly(value: Any, steps: dict[str, list[tuple[Any, ...]]]) -> Any:
    """Do to every dict of a record what the changes say, one after the other."""
    if isinstance(value, tuple):
        return tuple(migrate_plainly(part, steps) for part in value)
    if not isinstance(value, dict):
        return value
    made = {key: migrate_plainly(part, steps) for key, part in value.items()}
    for step, *words in steps.get(value.get(""), ()):
        if step == "rename":
            made[words[1]] = made.pop(words[0])
        elif step == "drop":
            del made[words[0]]
        elif step == "add":
            made[words[0]] = ("int", "7")
        elif step == "widen":
            made[words[0]] = ("Decimal", made[words[0]][1])
        elif step == "retype":
            made[words[0]] = spell("was " + made[words[0]][1])
    return made


def draw_changes(
    name: str, fields: dict[str, str], rng: random.Random
) -> tuple[dict[str, str], list[Any], list[Any], set[str]]:
    """Return the new fields of a record, what is declared, what plain Python does, and class defaults."""
    new, declared, steps, defaults = dict(fields), [], [], set()
    for one, kind in fields.items():
        step = rng.choice(["keep", "keep", "rename", "drop", "widen", "retype", "optional"])
        if step == "rename":
            new[f"{one}_now"] = new.pop(one)
            declared.append(Rename(name, one, f"{one}_now"))
            steps.append(("rename", one, f"{one}_now"))
        elif step == "drop":
            del new[one]
            declared.append(Drop(name, one))
            steps.append(("drop", one))
        elif step == "widen" and kind == "int":
            new[one] = "decimal"
            steps.append(("widen", one))
        elif step == "retype" and kind == "int":
            new[one] = "str"
            declared.append(Retype(name, one, lambda value: f"was {value}"))
            steps.append(("retype", one))
        elif step == "optional" and kind == "int":
            new[one] = "maybe"
    for one in rng.sample(["e", "f"], rng.randrange(3)):
        new[one] = "int"
        steps.append(("add", one))
        if rng.random() < 0.5:
            declared.append(Default(name, one, 7))
        else:
            defaults.add(one)
    ordered = list(new)
    rng.shuffle(ordered)
    ordered.sort(key=defaults.__contains__)
    rng.shuffle(declared)
    return {one: new[one] for one in ordered}, declared, steps, defaults


def build(
    name: str, fields: dict[str, str], inner: type, defaults: set[str], *, named: bool
) -> type:
    if named and not defaults:
        return NamedTuple(
            name, [(one, describe_field(kind, inner)) for one, kind in fields.items()]
        )
    return make_dataclass(
        name,
        [
            (one, describe_field(kind, inner), *([field(default=7)] if one in defaults else []))
            for one, kind in fields.items()
        ],
        frozen=True,
    )


@given(st.randoms(use_true_random=False))
def test_every_value_becomes_what_plain_python_makes_of_it(rng):
    inner_fields = {one: rng.choice(list(PLAIN)) for one in NAMES[: rng.randint(1, 4)]}
    nested = ["inner", "inners", "named", "pair", "maybe inner", "anything"]
    outer_fields = {one: rng.choice([*nested, *PLAIN]) for one in NAMES[: rng.randint(1, 4)]}
    named = rng.random() < 0.5
    old_inner = build("Inner", inner_fields, object, set(), named=named)
    old_outer = build("Outer", outer_fields, old_inner, set(), named=not named)

    def draw() -> Any:
        return old_outer(
            **{n: draw_value(k, old_inner, inner_fields, rng) for n, k in outer_fields.items()}
        )

    new_inner_fields, inner_changes, inner_steps, inner_defaults = draw_changes(
        "Inner", inner_fields, rng
    )
    new_outer_fields, outer_changes, outer_steps, outer_defaults = draw_changes(
        "Outer", outer_fields, rng
    )
    if not new_inner_fields:
        return
    new_inner = build("Inner", new_inner_fields, object, inner_defaults, named=not named)
    new_outer = build("Outer", new_outer_fields, new_inner, outer_defaults, named=named)
    old = keyed(Holder(draw(), old_inner))
    start = new_outer(
        **{n: draw_value(k, new_inner, new_inner_fields, rng) for n, k in new_outer_fields.items()}
    )
    new = keyed(Holder(start, new_inner), *inner_changes, *outer_changes)
    state = Map({key: draw() for key in rng.sample("pqrst", rng.randrange(5))})
    steps = {"Inner": inner_steps, "Outer": outer_steps}
    carried = carry(old, state, new)
    assert {key: to_plain(entry) for key, entry in carried.items()} == {
        key: migrate_plainly(to_plain(entry), steps) for key, entry in state.items()
    }
    assert all(type(entry) is new_outer for entry in carried.values())
    # What was carried over is the new program's own: a second time, nothing is left to do.
    assert carry(new, carried, new) == carried


@dataclass(frozen=True)
class Holder:
    """A shape that names the records its states may come to hold."""

    init: Any
    inner_record: type
    zero: Any = None
    fork: Any = None
    join: Any = None
    by: Any = None

    @property
    def records(self) -> tuple[type, ...]:
        return (self.inner_record,)

    def same(self, a: Any, b: Any) -> bool:
        return a == b


# One change after the other.


def stats(**fields: Any) -> type:
    return NamedTuple("Stats", list(fields.items()))


OLD = stats(count=int, total=int)
STATE = Map({"a": OLD(1, 10), "b": OLD(2, 20)})


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
        ({"total": int, "count": int}, (Rename("Stats", "count", "total"), Rename("Stats", "total", "count")), (1, 10)),
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
        ({"count": int, "total": int, "first": int}, (), [("Stats.first", "is new, and nothing says what it starts as")]),
        ({"count": int, "total": float}, (), [("Stats.total", "was int and is float (which may round)")]),
        ({"count": int, "total": bool}, (), [("Stats.total", "was int and is bool")]),
        ({"count": int, "total": str}, (), [("Stats.total", "was int and is str")]),
        ({"count": int, "total": list[int]}, (), [("Stats.total", "was int and is list")]),
        (
            {"seen": int, "total": int}, (),
            [("Stats.seen", "is new, and nothing says what it starts as"), ("Stats.count", "is gone")],
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
    assert [said for _, said in found] == [what]


def test_an_item_widens_wherever_it_is():
    old, new = stats(x=dict[str, list[int | None]]), stats(x=dict[str, list[Decimal | None]])
    carried = carry(keyed(old({})), Map({"a": old({"k": [1, None]})}), keyed(new({})))
    assert spell(carried["a"]) == spell(new({"k": [Decimal(1), None]}))


def test_a_record_is_renamed():
    new = NamedTuple("Statistics", [("count", int), ("total", int)])
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
    inner = NamedTuple("Inner", [("a", int)])
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
    inner, inner_now = NamedTuple("Inner", [("a", int)]), NamedTuple("Inner", [("b", int)])
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


def test_entries_that_meet_without_a_join_are_refused():
    with pytest.raises(EvolutionError, match="two entries meet under one key all"):
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
    with pytest.raises(EvolutionError, match="gives no key for each field"):
        carry(program(one), Map({"ax": 1}), program(two, Rekey(lambda key: key)))


def test_a_key_field_is_renamed_with_its_event():
    renamed = NamedTuple("Tick", [("time", int), ("user", str)])
    assert refusals(keyed(Count()), keyed(Count(), by="user", tag=renamed)) == [
        ("key", "was key and is user"),
        ("Tick.user", "is new, and nothing says what it starts as"),
        ("Tick.key", "is gone"),
    ]
    new = keyed(Count(), Rename("Tick", "key", "user"), by="user", tag=renamed)
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
    with pytest.raises(EvolutionError, match="holds parts of entries, of which no key can be told"):
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
        EvolutionError, match="state type 'part' is gone, and the savepoint still holds"
    ):
        Migration(describe_snapshot(several("whole", "part"), 3, {"part": 1}, []), new)
    assert refusals(several("whole", "part"), new) == []


def test_pending_events_are_carried_over():
    after = NamedTuple("Tick", [("time", int), ("key", str), ("weight", Decimal)])
    old, new = keyed(Count()), keyed(Count(), Default("Tick", "weight", Decimal(1)), tag=after)
    migration = Migration(describe_snapshot(old, Map(), {}, [Tick(3, "a")]), new)
    event = migration.codec.decode(make_codec(old).encode(Tick(3, "a")))
    assert spell(migration.migrate_event(event)) == spell(after(3, "a", Decimal(1)))
    assert refusals(old, keyed(Count(), tag=after)) == [
        ("Tick.weight", "is new, and nothing says what it starts as")
    ]


def test_an_event_type_that_is_gone_is_refused_only_if_events_are_pending():
    old, new = laned(None, Count()), Program(on(Tick), depends(Tick, Tick), state=Count())
    assert Migration(describe_snapshot(old, 3, {}, [Tick(1, "a")]), new).migrate_state(3) == 3
    with pytest.raises(
        EvolutionError, match="event Hour is gone, and the savepoint still holds some"
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
        EvolutionError, match=r"Stats.total has a retype already, by another function"
    ):
        carry(before, STATE, keyed(OLD(0, 0), Retype("Stats", "total", lambda value: value + 1)))
    named = keyed(OLD(0, 0), Retype("Stats", "total", lambda value: value + 1, name="one more"))
    assert carry(before, STATE, named)["a"] == OLD(1, 11)
    renamed = keyed(OLD(0, 0), Retype("Stats", "total", lambda value: value + 99, name="one more"))
    assert carry(named, STATE, renamed) == STATE


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
