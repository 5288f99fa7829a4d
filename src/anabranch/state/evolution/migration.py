"""Migration: conversion of the state of an older program to a newer one.

Refusals are raised before anything is changed.

for verdict in compare(old_schema, program): ...
migration = Migration(old_schema, program)     # raises EvolutionError with every refusal
state = migration.migrate_state(migration.read_state(tables))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from anabranch.model.events import LANE
from anabranch.model.program import Program
from anabranch.model.shapes import BASE, MISSING, WrittenShape
from anabranch.model.values.maps import Map
from anabranch.state.durable.codec import Codec, make_codec
from anabranch.state.durable.kinds import Kind, Record
from anabranch.state.durable.record_stand_ins import make_stand_in
from anabranch.state.durable.row_tables import from_table, to_table
from anabranch.state.evolution.changes import Change, Default, Rekey, Rename, Reshape, find_pending
from anabranch.state.evolution.fitting import Convert, call, class_name
from anabranch.state.evolution.inner_entries import Leaf, flatten, nest
from anabranch.state.evolution.record_history import find_unknown, trace_record
from anabranch.state.evolution.rules import Place, Rules, keep
from anabranch.state.evolution.schemas import (
    EntryKinds,
    Schema,
    describe_entries,
    describe_program,
    list_entries,
    make_state,
)
from anabranch.state.evolution.verdicts import (
    AUTOMATIC,
    DECLARED,
    REFUSED,
    SAME,
    EvolutionError,
    Verdict,
    check_verdicts,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["EvolutionError", "Migration", "Verdict", "compare"]

_INITIAL = ""
"""The state type that a run starts with, whatever its name."""
_NOTHING = WrittenShape()
"""The shape for a program of which only the schema is known."""


def compare(old: Schema, program: Program | Schema) -> list[Verdict]:
    """Return the verdict on each part of an older state, without raising on refusals.

    The schema of the newer program is enough; but only the program has the declared changes.
    """
    return Migration(old, program, check=False).verdicts


class Migration:
    """The migration of state, deltas and pending events of an older program to a newer one.

    `records` and `codec` read values of the older program into stand-ins for its classes, which may not
    exist any more. Values in memory can be migrated too: `codec.decode(old_codec.encode(value))`.
    """

    def __init__(self, old: Schema, program: Program | Schema, *, check: bool = True) -> None:
        self.old, self.program = old, program
        given: tuple[Change, ...] = ()
        if isinstance(program, Schema):
            self.new, name = program.promise, "it"
            classes: Mapping[str, type] = _make_stand_ins(program.promise)
        else:
            self.new, name = describe_program(program), program.name
            classes = make_codec(program).records
            given = program.changes
        promise = old.promise
        self.records = _make_stand_ins(promise)
        self.codec = Codec(self.records.values())
        changes, unclear = find_pending(set(promise.changes), given)
        defaults = tuple(one for one in given if isinstance(one, Default))
        self._rules = Rules(
            promise.records, self.new.records, classes, self.records, changes, defaults
        )
        if isinstance(program, Program):
            self._rules.grown = _find_grown(promise, program, self._rules.renew)
        for place, what, cure in unclear:
            self._rules.note(REFUSED, place, what, cure)
        self._changes = changes
        self._judge_names(promise)
        self._state = self._build(promise.state, self.new.state, _INITIAL, partial=False)
        self._deltas = self._build_deltas(promise)
        self._events = self._build_events(promise)
        if check:
            check_verdicts(self.verdicts, name)

    @property
    def verdicts(self) -> list[Verdict]:
        """Return the verdicts on all parts, in the order in which they were checked."""
        return list(self._rules.verdicts)

    def read_state(self, tables: Iterable[pa.Table]) -> Any:
        """Return the older state in tables."""
        return self._read(self.old.state, tables)

    def read_delta(self, name: str, tables: Iterable[pa.Table]) -> Any:
        """Return the older delta of a state type in tables."""
        return self._read(self.old.deltas[name], tables)

    def _read(self, entries: EntryKinds, tables: Iterable[pa.Table]) -> Any:
        pairs = [
            pair
            for table in tables
            for pair in from_table(entries.key, entries.entry, table, self.records, self.codec)
        ]
        return make_state(entries, pairs)

    def migrate_state(self, state: Any) -> Any:
        """Return the new program's state for the older one's."""
        return self._state(state)

    def migrate_delta(self, name: str, delta: Any) -> Any:
        """Return the new delta of a state type for the older one's."""
        return self._deltas[name](delta)

    def migrate_event(self, data: Any) -> Any:
        """Return the new event for an older one that is pending."""
        return self._events[type(data).__name__](data)

    def migrate_tables(self, tables: Iterable[pa.Table]) -> tuple[EntryKinds, pa.Table]:
        """Return the new state as a table, with its kinds, for the tables of the older one's."""
        assert isinstance(self.program, Program)
        codec = make_codec(self.program)
        pairs = list_entries(self.new.state, self.migrate_state(self.read_state(tables)), codec)
        kinds = describe_entries(self.new.state, pairs)
        return kinds, to_table(kinds.key, kinds.entry, pairs, codec)

    def _judge_names(self, promise: Schema) -> None:
        for change in find_unknown(self._changes, _list_fields(promise), _list_fields(self.new)):
            place, cure = (
                f"{change.record}.{change.field}",
                f"Retype of a field that {change.record} has",
            )
            self._rules.note(REFUSED, place, "is to be retyped, and neither program has it", cure)

    def _build_deltas(self, promise: Schema) -> dict[str, Convert]:
        found: dict[str, Convert] = {}
        for name in self.old.deltas:
            place = f"state type {name!r}"
            if name not in self.new.deltas:
                self._note_gone(
                    place, f"keep State({name!r}, ...) until a marker has joined its deltas"
                )
                continue
            if (
                self._find(Rekey)
                and self.old.declared
                and any(c.sees_entry for c in self._find(Rekey))
            ):
                cure = (
                    "Rekey(lambda key: ...), of the key alone, or a savepoint right after a marker"
                )
                self._rules.note(
                    REFUSED, place, "has parts of entries, of which no key can be computed", cure
                )
            found[name] = self._build(
                promise.deltas[name], self.new.deltas[name], name, partial=True
            )
        return found

    def _build_events(self, promise: Schema) -> dict[str, Convert]:
        found: dict[str, Convert] = {}
        for name in self.old.events:
            after = trace_record(name, self._changes)[-1]
            if after not in self.new.events:
                cure = f"keep on({name}, ...) until its events are folded, or Rename({name!r}, ...)"
                self._note_gone(f"event {name}", cure)
                continue
            old, new = promise.records[name], self.new.records[after]
            found[name] = self._rules.convert(old, new, Place(f"event {name}", f"keep {name}"))
        return found

    def _note_gone(self, place: str, cure: str) -> None:
        if self.old.declared is None:
            what = "is gone: a savepoint that still has any is refused"
            self._rules.note(AUTOMATIC, place, what)
        else:
            self._rules.note(REFUSED, place, "is gone, and the savepoint still has some", cure)

    def _find(self, kind: type) -> list[Any]:
        return [change for change in self._changes if isinstance(change, kind)]

    def _build(self, old: EntryKinds, new: EntryKinds, name: str, *, partial: bool) -> Convert:
        """Return a function that converts a whole state of one type: its inner entries, then its keys."""
        shape, inner = self._find_shapes(name, len(new.by))
        whole = self._build_leaf(old.leaf, new.leaf, inner, partial=partial)
        laned = old.lanes is not None
        part = self._build_leaf(old.leaf, new.leaf, inner, partial=True) if laned else whole
        relane = self._build_lanes(old, new, shape, inner, (whole, part))
        rekey = self._build_keys(old, new, shape, seen=partial)
        depth, new_depth = len(old.by), len(new.by)

        def migrate(state: Any) -> Any:
            # Entries with the same new key must be joined in a deterministic order.
            found = flatten(state, depth, ordered=bool(self._find(Rekey)))
            leaves = [(path, relane(leaf)) for path, leaf in found]
            return nest(rekey(leaves), new_depth, inner.join if inner is shape else shape.join)

        return migrate

    def _find_shapes(self, name: str, depth: int) -> tuple[Any, Any]:
        """Return the shape of an innermost entry, and of one lane of it."""
        if isinstance(self.program, Schema):
            return _NOTHING, _NOTHING
        types = {one.name: one for one in self.program.state_types}
        shape: Any = types.get(name, self.program.initial).shape
        for _ in range(depth):
            shape = shape.inner
        return shape, shape.inner if shape.by == LANE else shape

    def _build_leaf(self, old: Kind, new: Kind, shape: Any, *, partial: bool) -> Convert:
        reshapes = [change.function for change in self._find(Reshape)]
        if reshapes:
            self._rules.note(DECLARED, "entry", "is converted by a function")

            def reshape(entry: Any) -> Any:
                for function in reshapes:
                    entry = call(function, "the entry", entry)
                return self._rules.finish(entry)

            return reshape
        is_struct = isinstance(new, Record) and new.name.startswith("Struct(")
        start = shape.zero if partial else (shape.init if is_struct else MISSING)
        before = len(self._rules.verdicts)
        self._rules.partial = start is not MISSING and partial
        converted = self._rules.convert(old, new, Place("entry", "Reshape(function)"), start)
        self._rules.partial = False
        if len(self._rules.verdicts) == before and not partial:
            self._rules.note(SAME, "entry", "is unchanged")
        return converted

    def _build_lanes(
        self,
        old: EntryKinds,
        new: EntryKinds,
        shape: Any,
        inner: Any,
        converts: tuple[Convert, Convert],
    ) -> Convert:
        whole, part = converts
        if old.lanes is None and new.lanes is None:
            return whole

        def convert(state: Any) -> Any:
            if old.lanes is None:
                return shape.expand(whole(state))
            parts = {n: (whole if n == BASE else part)(one) for n, one in state.entries().items()}
            if old.lanes == new.lanes:
                return Map(parts)
            joined = parts[min(parts)]
            for n in sorted(parts)[1:]:
                joined = inner.join(joined, parts[n])
            return joined if new.lanes is None else shape.expand(joined)

        if old.lanes == new.lanes:
            self._rules.note(SAME, "lanes", str(new.lanes))
        elif old.lanes is not None and inner.join is None and inner is not _NOTHING:
            self._rules.note(
                REFUSED, "lanes", "can't be joined, because the state has no join", "give it a join"
            )
        else:
            self._rules.note(
                AUTOMATIC, "lanes", f"become {new.lanes or 'one state'}: they are joined"
            )
        return convert

    def _build_keys(
        self, old: EntryKinds, new: EntryKinds, shape: Any, *, seen: bool
    ) -> Callable[[list[Leaf]], list[Leaf]]:
        rekeys = self._find(Rekey)
        if rekeys:
            self._rules.note(
                DECLARED, "key", f"becomes {', '.join(new.by) or 'none'} by a function"
            )
            return lambda leaves: [
                (self._rekey(rekeys, path, leaf, shape, len(new.by)), leaf) for path, leaf in leaves
            ]
        cure = "Rekey(lambda key, entry: ...)"
        renames = {(one.old, one.new) for one in self._find(Rename)}
        if len(old.by) != len(new.by):
            what = f"was {', '.join(old.by) or 'none'} and is {', '.join(new.by) or 'none'}"
            self._rules.note(REFUSED, "key", what, cure)
            return lambda leaves: leaves
        keys: list[Convert] = []
        for a, b, kind, now in zip(old.by, new.by, old.keys, new.keys, strict=True):
            if a != b and (a, b) not in renames:
                self._rules.note(REFUSED, "key", f"was {a} and is {b}", cure)
            elif a != b and not seen:
                self._rules.note(DECLARED, "key", f"was called {a}, and is called {b}")
            before = len(self._rules.verdicts)
            keys.append(self._rules.convert(kind, now, Place("key", cure)))
            if a == b and len(self._rules.verdicts) == before and not seen:
                self._rules.note(SAME, "key", b)
        if all(change is keep for change in keys):
            return lambda leaves: leaves
        return lambda leaves: [
            (tuple(change(key) for change, key in zip(keys, path, strict=True)), leaf)
            for path, leaf in leaves
        ]

    def _rekey(
        self, rekeys: list[Rekey], path: tuple[Any, ...], leaf: Any, shape: Any, depth: int
    ) -> tuple[Any, ...]:
        key = self._rules.renew(None if not path else path[0] if len(path) == 1 else path)
        entry = shape.collapse(leaf) if shape.by == LANE else leaf
        for change in rekeys:
            key = call(change.function, "the key", *((key, entry) if change.sees_entry else (key,)))
        if depth > 1 and (type(key) is not tuple or len(key) != depth):
            raise EvolutionError(
                "the function for the key does not return one key per field",
                expected=f"a tuple of {depth}",
                got=repr(key)[:80],
            )
        return key if depth > 1 else (key,) * depth


def _make_stand_ins(schema: Schema) -> dict[str, type]:
    return {name: make_stand_in(kind) for name, kind in schema.records.items()}


def _find_grown(promise: Schema, program: Program, renew: Convert) -> dict[str, Convert]:
    """Return converters from values of open windows to those with more aggregates, which start from zero."""
    shape: Any = program.initial.shape
    while shape.by is not None:
        shape = shape.inner
    fold = getattr(getattr(shape, "windowing", None), "fold", None)
    if not hasattr(fold, "states"):
        return {}
    zero: Any = fold.zero  # type: ignore[union-attr]
    found: dict[str, Convert] = {}
    for name, kind in promise.records.items():
        if isinstance(kind, Record) and name.startswith("Struct("):
            fields = [field for field, _ in kind.fields]
            if set(fields) < set(zero._fields):
                found[name] = _make_grower(zero, fields, renew)
    return found


def _make_grower(zero: Any, fields: list[str], renew: Convert) -> Convert:
    return lambda value: zero._replace(**{name: renew(getattr(value, name)) for name in fields})


def _list_fields(schema: Schema) -> dict[str, tuple[str, ...]]:
    records = (kind for kind in schema.records.values() if isinstance(kind, Record))
    found: dict[str, tuple[str, ...]] = {}
    for kind in records:
        name = class_name(kind.name)
        found[name] = (*found.get(name, ()), *(field for field, _ in kind.fields))
    return found
