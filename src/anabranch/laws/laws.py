"""The laws, as data: what a program with a fork, a join and a dependence promises."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Law:
    """A law: its name, its number in the theory, its equation, and why it is needed."""

    name: str
    title: str
    equation: str
    theory: str

    def __str__(self) -> str:
        return f"{self.name} ({self.title})" if self.title else self.name


FUNCTIONS_ARE_PURE = Law(
    "functions_are_pure",
    "",
    "f(x) == f(x), and x stays as it was",
    "A result that depends on the events alone can be computed on any node, and again after a "
    "crash; a function that changes its arguments or is random gives another result each time.",
)
UPDATE_PASSES_THROUGH_JOIN = Law(
    "update_passes_through_join",
    "C1",
    "join(update(s1, e), s2) == update(join(s1, s2), e), and output(s1, e) == output(join(s1, s2), e)",
    "A side that handles an event alone must change the state and emit outputs as the whole would; "
    "so a node need not wait for the others.",
)
JOIN_UNDOES_FORK = Law(
    "join_undoes_fork",
    "C2",
    "join(*fork(s, left, right)) == s",
    "Forking a state and joining it again loses nothing and counts nothing twice, so a plan may "
    "fork at any time.",
)
INDEPENDENT_UPDATES_COMMUTE = Law(
    "independent_updates_commute",
    "C3",
    "update(update(s, e1), e2) == update(update(s, e2), e1), and neither output sees the other",
    "Events that were not declared dependent may be handled in either order, so their order must "
    "not matter.",
)
JOIN_HAS_IDENTITY = Law(
    "join_has_identity",
    "",
    "join(s, zero) == s, and join(s, update(zero, e)) == update(s, e)",
    "A leaf may fold its events from zero, without waiting for the forked state, if joining the "
    "delta is the same as folding the events from that state.",
)
JOIN_IS_ASSOCIATIVE = Law(
    "join_is_associative",
    "",
    "join(join(a, b), c) == join(a, join(b, c))",
    "Many sides can be joined in a tree of any shape if it does not matter which two are joined first.",
)

LAWS: tuple[Law, ...] = (
    FUNCTIONS_ARE_PURE,
    UPDATE_PASSES_THROUGH_JOIN,
    JOIN_UNDOES_FORK,
    INDEPENDENT_UPDATES_COMMUTE,
    JOIN_HAS_IDENTITY,
    JOIN_IS_ASSOCIATIVE,
)
"""Every law, in the order of the checks."""


def find_law(name: str) -> Law:
    """Return the law with a name."""
    for law in LAWS:
        if law.name == name:
            return law
    raise KeyError(f"there is no law {name!r}; the laws are {', '.join(law.name for law in LAWS)}")
