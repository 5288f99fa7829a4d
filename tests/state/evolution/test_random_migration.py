"""Random records in records, random changes: each value becomes what plain Python makes of it."""

import random
from dataclasses import dataclass, field, make_dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from anabranch import Map
from anabranch.state import (
    Default,
    Drop,
    Rename,
    Retype,
)
from tests.state.evolution.carrying import carry, keyed
from tests.state.values import spell

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

    makers = {
        "int": lambda: rng.choice([0, 1, -5, 2**70]),
        "str": lambda: rng.choice(["", "x", "ü"]),
        "float": lambda: rng.choice([0.5, -0.0, float("inf")]),
        "maybe": lambda: rng.choice([None, 3]),
        "decimal": lambda: Decimal(rng.choice(["1.10", "3"])),
        "inner": make,
        "inners": lambda: [make() for _ in range(rng.randrange(3))],
        "named": lambda: {name: make() for name in rng.sample("xyz", rng.randrange(3))},
        "pair": lambda: (make(), rng.randrange(9)),
        "maybe inner": lambda: rng.choice([None, make()]),
        "anything": lambda: rng.choice([1, "x", make(), [make()], {"k": make()}]),
    }
    return makers[kind]()


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
