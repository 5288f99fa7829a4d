"""The programs of the machine, each built of a short description that can also be changed."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from anabranch import Program, depends, on
from anabranch.state import (
    Drop,
    MapOf,
    Max,
    Rekey,
    Rename,
    Replicated,
    Reshape,
    Retype,
    Shared,
    Struct,
    Value,
)
from tests.state.machine.operations import OPERATIONS


class Put(NamedTuple):
    time: int
    key: int
    amount: int


class Peek(NamedTuple):
    time: int
    key: int


class Most(NamedTuple):
    time: int
    most: int


class Alarm(NamedTuple):
    time: int
    key: int


Plain = Put


def make_wide_put() -> type:
    class Put(NamedTuple):
        time: int
        key: int
        amount: int
        weight: int = 1

    return Put


Wide = make_wide_put()
ALARM = 4
"""How long after a key's last event it is reminded of it."""
START = 5
"""The most that one event adds, until somebody says otherwise."""


@dataclass(frozen=True)
class Spec:
    """What a program does.

    `form` is how its events depend on each other: those of a key (`keyed`), those of a key on its peeks
    only (`free`), all on peeks only (`whole`); or keys that share a part (`shared`). `fields` are the
    operations by the names of their fields; a `bare` state is that of its only operation.
    """

    form: str
    fields: tuple[tuple[str, str], ...]
    bare: bool = False
    ttl: int | None = None
    refresh: str = "writes"
    sparse: bool = False
    drains: bool = False
    alarms: bool = False
    wide: bool = False
    changes: tuple[Any, ...] = ()

    @property
    def put(self) -> type:
        return Wide if self.wide else Plain

    @property
    def can_be_hot(self) -> bool:
        return self.form == "free"


def make_program(spec: Spec) -> Program:
    put, shape = spec.put, make_entry(spec)
    view = (lambda s: s.entry) if spec.form == "shared" else (lambda s: s)
    emits = spec.form in ("keyed", "shared")

    def take(state: Any, event: Any) -> Any:
        amount = event.amount * getattr(event, "weight", 1)
        if spec.form == "shared":
            amount = min(amount, state.common)
        return add(spec, view(state), amount, event.time)

    def say(state: Any, event: Any) -> Any:
        return (event.time, event.key, type(event).__name__, show(spec, view(state)))

    handlers = [
        on(put, update=BARE.get(spec, take), output=say if emits else None),
        on(Peek, output=say, update=(lambda state, event: shape.init) if spec.drains else None),
    ]
    if spec.form == "shared":
        handlers.append(on(Most, update=lambda common, event: event.most))
    if spec.alarms:
        wake = on(
            Alarm,
            due=lambda entry: entry.last + ALARM if entry.last else None,
            output=say,
            update=lambda state, event: view(state)._replace(last=0),
        )
        handlers.append(wake)
    return Program(
        *handlers, *list_dependences(spec), state=make_state(spec, shape),
        rank=(*([Most] if spec.form == "shared" else []), Peek, put), changes=spec.changes, name="machine",
    )  # fmt: skip


def make_entry(spec: Spec) -> Any:
    shapes = {name: OPERATIONS[operation].shape for name, operation in spec.fields}
    if spec.bare:
        return next(iter(shapes.values()))
    return Struct(**shapes, **({"last": Value(start=0)} if spec.alarms else {}))


def make_state(spec: Spec, shape: Any) -> Any:
    if spec.form == "whole":
        return shape
    kept = MapOf(shape, by="key", ttl=spec.ttl, refresh=spec.refresh) if spec.ttl else None
    kept = kept or MapOf(shape, by="key", sparse=spec.sparse)
    return Shared(Replicated(START), kept) if spec.form == "shared" else kept


def list_dependences(spec: Spec) -> list[Any]:
    put = spec.put
    if spec.form == "whole":
        return [depends(Peek, put, Peek)]
    peeks = depends(Peek, put, Peek, same="key")
    return [peeks] if spec.form == "free" else [depends(put, put, same="key"), peeks]


def add(spec: Spec, state: Any, amount: int, time: int) -> Any:
    if spec.bare:
        return OPERATIONS[spec.fields[0][1]].add(state, amount)
    done = {name: OPERATIONS[op].add(getattr(state, name), amount) for name, op in spec.fields}
    return state._replace(**done, **({"last": time} if spec.alarms else {}))


def show(spec: Spec, state: Any) -> Any:
    if spec.bare:
        return OPERATIONS[spec.fields[0][1]].show(state)
    return [[name, OPERATIONS[op].show(getattr(state, name))] for name, op in sorted(spec.fields)]


class _Bare(dict[str, Any]):
    """Updates of bare states as a user would write them, which lie in columns and compile."""

    def get(self, spec: Any, default: Any = None) -> Any:
        return super().get(spec.fields[0][1], default) if spec.bare and not spec.wide else default


BARE = _Bare(
    count=lambda n, e: n + 1,
    total=lambda n, e: n + e.amount,
    top=lambda n, e: Max().add(n, e.amount),
)


# --- changes ------------------------------------------------------------------------------------


def evolve(spec: Spec, step: str, number: int) -> Spec:
    """Return a program that differs from another, and says how; the same one if it can't be changed so."""
    fields, (first, operation) = spec.fields, spec.fields[0]
    rest, fresh = fields[1:], f"f{number}"
    if step == "shift keys" and spec.form in ("keyed", "free"):
        return changed(spec, Rekey(lambda key: key + 10, name=fresh))
    if step == "widen events" and not spec.wide and not spec.bare:
        return replace(spec, wide=True)
    if step == "unfold" and spec.bare:
        made = Struct(**{first: OPERATIONS[operation].shape})
        return changed(
            replace(spec, bare=False),
            Reshape(lambda n: made.init._replace(**{first: n}), name=fresh),
        )
    if spec.bare or spec.ttl or spec.form == "shared":
        # A Struct that ages, or lies beside a shared part, is refused with other fields.
        return spec
    if step == "rename":
        return changed(
            replace(spec, fields=(*rest, (fresh, operation))), Rename("Struct", first, fresh)
        )
    if step == "drop" and rest and not spec.sparse:
        return changed(replace(spec, fields=rest), Drop("Struct", first))
    if step == "add":
        return replace(spec, fields=(("g" + fresh, "count"), *fields))
    if step == "retype" and operation in ("count", "total", "share"):
        return changed(spec, Retype("Struct", first, lambda n: n * 100, name=fresh))
    return spec


def changed(spec: Spec, change: Any) -> Spec:
    return replace(spec, changes=(*spec.changes, change))


STEPS = ("rename", "drop", "add", "retype", "shift keys", "widen events", "unfold")
