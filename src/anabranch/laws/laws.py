"""The laws, as data: what a program promises when it gives a fork, a join and a dependence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Law:
    """A promise: its name, its number in the theory, its equation, and why it is needed."""

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
    "An answer that follows from the events alone can be computed anywhere, and again after a "
    "crash; a function that changes its arguments or rolls dice gives another answer each time.",
)
UPDATE_PASSES_THROUGH_JOIN = Law(
    "update_passes_through_join",
    "C1",
    "join(update(s1, e), s2) == update(join(s1, s2), e), and output(s1, e) == output(join(s1, s2), e)",
    "A side that handles an event alone must change, and say, what the whole would have; so a "
    "node need not wait for the others.",
)
JOIN_UNDOES_FORK = Law(
    "join_undoes_fork",
    "C2",
    "join(*fork(s, left, right)) == s",
    "Cutting a state and putting it together again loses nothing and counts nothing twice, so "
    "a plan may fork whenever it likes.",
)
INDEPENDENT_UPDATES_COMMUTE = Law(
    "independent_updates_commute",
    "C3",
    "update(update(s, e1), e2) == update(update(s, e2), e1), and neither output sees the other",
    "Events that were not declared dependent may be handled in either order, so their order must "
    "not show.",
)
JOIN_HAS_IDENTITY = Law(
    "join_has_identity",
    "",
    "join(s, zero) == s, and join(s, update(zero, e)) == update(s, e)",
    "A leaf may fold its events from zero, without waiting for the forked state, if joining what "
    "it folded is the same as having gone on from that state.",
)
JOIN_IS_ASSOCIATIVE = Law(
    "join_is_associative",
    "",
    "join(join(a, b), c) == join(a, join(b, c))",
    "Many sides can be joined in a tree of any form if it does not matter which two come first.",
)

LAWS: tuple[Law, ...] = (
    FUNCTIONS_ARE_PURE,
    UPDATE_PASSES_THROUGH_JOIN,
    JOIN_UNDOES_FORK,
    INDEPENDENT_UPDATES_COMMUTE,
    JOIN_HAS_IDENTITY,
    JOIN_IS_ASSOCIATIVE,
)
"""Every law, in the order in which it is checked."""


def find_law(name: str) -> Law:
    """Return the law of that name."""
    for law in LAWS:
        if law.name == name:
            return law
    raise KeyError(f"there is no law {name!r}; there are {', '.join(law.name for law in LAWS)}")
