"""Scripts: a case written as a Python program that runs on its own.

The lines are run while they are written, so that each comment shows the real value of its line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.laws.searching.cuts import Cut
from anabranch.laws.searching.literals import Literals, abridge
from anabranch.laws.searching.reachable import Apart, Case, Move
from anabranch.model.events import Event
from anabranch.model.failures import attempt
from anabranch.model.program import ForkJoin, Program, StateType
from anabranch.model.shapes import WrittenShape
from anabranch.model.slices import Shard, Slices, take

OUTCOME = """\
def outcome(call):
    try:
        return call()
    except Exception as error:
        return f"raises {type(error).__name__}"
"""
"""Turns an exception into a value, for counterexamples in which a call raises."""

WORDS = {"Event": Event, "Shard": Shard, "Slices": Slices, "take": take}
"""The names of the library that a script may import."""

TAKEN = frozenset({"program", "s", "s1", "s2", "e", "e1", "e2", "left", "right", "a", "b", "c"})
"""Names that scripts use for states and events."""


class Script:
    """A program under construction, run line by line."""

    def __init__(self, program: Program, *, shows: bool = True) -> None:
        self.program = program
        self._shows = shows
        self._literals = Literals(program.event_types)
        self._body: list[str] = []
        self._definitions: dict[str, str] = {}
        self._scope: dict[str, Any] = {"program": program}

    def run(self, line: str, *shown: str) -> None:
        """Add a line and run it; a comment shows the values of the given names after it."""
        self._prepare()
        exec(line, self._scope)  # noqa: S102 - lines are written here, about the user's own program
        values = ", ".join(abridge(self._scope[name]) for name in shown)
        self._body.append(f"{line}  # {values}" if shown and self._shows else line)

    def add(self, line: str) -> None:
        """Add a line that is not run here."""
        self._prepare()
        self._body.append(line)

    def need(self, statement: str) -> None:
        """Add an import statement and run it."""
        self._literals.imports[statement] = None

    def _prepare(self) -> None:
        if "outcome" not in self._scope:
            exec(OUTCOME, self._scope)  # noqa: S102 - as above
        self._scope.update({word: WORDS[word] for word in self._literals.words})
        for line in self._literals.imports:
            exec(line, self._scope)  # noqa: S102 - as above
        for name, meaning in {**self._literals.names, **self._definitions}.items():
            if name not in self._scope:
                exec(f"{name} = {meaning}", self._scope)  # noqa: S102 - as above

    def event(self, event: Event) -> str:
        """Return an expression for an event."""
        wrapped = len(self.program.state_types) > 1
        placed = self.program.lanes is not None
        return self._literals.write_event(event, wrapped=wrapped, placed=placed)

    def kind(self, state_type: StateType) -> str:
        """Return an expression for a state type."""
        if state_type is self.program.initial:
            return "program.initial"
        name = state_type.name
        if not name.isidentifier() or name in TAKEN:
            name = f"type_{self.program.state_types.index(state_type)}"
        self._definitions[name] = f'program.state_type("{state_type.name}")'
        return name

    def update(self, state_type: StateType, state: str, event: str) -> str:
        """Return an expression for the state after an event."""
        if state_type is self.program.initial:
            return f"program.update({state}, {event})"
        return f"{self.kind(state_type)}.step({state}, {event})[0]"

    def output(self, state_type: StateType, state: str, event: str) -> str:
        """Return an expression for the outputs of an event on a state."""
        if state_type is self.program.initial:
            return f"program.output({state}, {event})"
        return f"{self.kind(state_type)}.step({state}, {event})[1]"

    def fork(self, cut: Cut, state: str) -> str:
        """Return an expression for the two sides of a cut."""
        left, right = map(self._literals.write_slices, (cut.left, cut.right))
        kind = self._kind_argument(cut.fork)
        if kind is not None:
            return f"program.fork({state}, {left}, {right}{kind})"
        self._literals.words.add("Slices")
        return f"{self._find(cut.fork)}.fork({state}, Slices({left}), Slices({right}))"

    def join(self, fork: ForkJoin, *states: str) -> str:
        """Return an expression for two states joined."""
        kind = self._kind_argument(fork)
        if kind is not None:
            return f"program.join({', '.join(states)}{kind})"
        return f"{self._find(fork)}.join({', '.join(states)})"

    def _kind_argument(self, fork: ForkJoin) -> str | None:
        first = next(own for own in self.program.forks if own.parent == fork.parent)
        if first is not fork:
            return None
        return "" if fork.parent == self.program.initial.name else f', kind="{fork.parent}"'

    def _find(self, fork: ForkJoin) -> str:
        name = f"fork_{self.program.forks.index(fork)}"
        names = ", ".join(f'"{part}"' for part in (fork.parent, fork.left, fork.right))
        self._definitions[name] = f"program.find_fork({names})"
        return name

    def equal(self, state_type: StateType | None, a: str, b: str) -> str:
        """Return an expression that compares two states as their type does; for None, exactly."""
        shape = None if state_type is None else state_type.shape
        # A shape with parts, or with the user's own `same`, may treat unequal values as the same.
        if state_type is None or (isinstance(shape, WrittenShape) and shape.equal is None):
            return f"{a} == {b}"
        return f"{self.kind(state_type)}.shape.same({a}, {b})"

    def compare(self, state_type: StateType | None, got: str, expected: str) -> None:
        """Add the assertion that two names have the same state."""
        claim = self.equal(state_type, got, expected)
        self.add(f'assert {claim}, f"{{{got}!r}} is not {{{expected}!r}}"')

    def follow(self, state_type: StateType, name: str, moves: Iterable[Move]) -> None:
        """Add the moves of a state. Rejected events are left out."""
        for move in moves:
            if isinstance(move, Apart):
                self.part(move.cut, ("left", "right"), name, (move.lefts, move.rights))
                self.run(f"{name} = {self.join(move.cut.fork, 'left', 'right')}", name)
                continue
            line = f"{name} = {self.update(state_type, name, self.event(move))}"
            attempt(self.run, line, name)

    def follow_delta(self, state_type: StateType, name: str, events: Iterable[Event]) -> None:
        """Add the events folded into a delta. Rejected events are left out."""
        for event in events:
            step = f"{self.kind(state_type)}.step_delta({name}, {self.event(event)})[0]"
            try:
                self.run(f"{name} = {step}", name)
            except Exception:  # noqa: BLE001, S112 - whatever a user's function raises
                continue

    def part(
        self,
        cut: Cut,
        names: tuple[str, str],
        state: str,
        events: tuple[tuple[Event, ...], tuple[Event, ...]] = ((), ()),
    ) -> None:
        """Add a fork, and the events of both sides."""
        self.run(f"{', '.join(names)} = {self.fork(cut, state)}", *names)
        kinds = (cut.fork.left, cut.fork.right)
        for kind, name, own in zip(kinds, names, events, strict=True):
            self.follow(self.program.state_type(kind), name, own)

    def reach(self, case: Case, *, copied: bool = False) -> StateType:
        """Add the steps to the state `s`; return its type. With `copied`, the initial state is copied first."""
        state_type = self.program.initial
        if copied:
            self.need("import copy")
        self.run("s = copy.deepcopy(program.init)" if copied else "s = program.init", "s")
        self.follow(state_type, "s", case.moves)
        for descent in case.descents:
            names = "s, _" if descent.side == "left" else "_, s"
            self.run(f"{names} = {self.fork(descent.cut, 's')}", "s")
            state_type = self.program.state_type(descent.cut.side(descent.side)[0])
            self.follow(state_type, "s", descent.moves)
        return state_type

    def write(self, target: str | None, *, without_lanes: bool = False) -> str:
        """Return the whole program."""
        bare = ".changed(lanes=None)" if without_lanes else ""
        words = [*self._literals.words, *([] if target is None else ["load"])]
        words.sort(key=lambda word: (not word[0].isupper(), word))
        load = f'load("{target}"){bare}' if target else f"...{bare}  # your program"
        head = sorted(self._literals.imports, key=lambda line: (line.startswith("from"), line))
        head += [f"from anabranch import {', '.join(words)}"] if words else []
        names = {**self._literals.names, **self._definitions}
        named = [f"program = {load}", *(f"{name} = {value}" for name, value in names.items())]
        blocks = ["\n".join(head), "\n".join(named), "\n".join(self._body)]
        if any("outcome(" in line for line in self._body):
            blocks.insert(1, f"\n{OUTCOME}")
        return "\n\n".join(filter(None, blocks)) + "\n"
