"""Terms: expressions over unbounded integers and truth values, as symbolic execution builds them.

A term can be evaluated in Python and translated to z3. Both follow Python where the two differ:
`//` and `%` round towards minus infinity, while z3's round so that the remainder is never negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

INT = "int"
BOOL = "bool"


class Term:
    """One node of an expression. Made by the functions below, which also fold constants."""

    __slots__ = ("_hash", "args", "op", "sort")

    def __init__(self, op: str, args: tuple[Any, ...], sort: str) -> None:
        self.op = op
        self.args = args
        self.sort = sort
        # Terms share parts, so computing the hash by a walk each time would be exponential.
        self._hash = hash((op, args, sort))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Term) or self._hash != other._hash:
            return False
        return (self.op, self.sort, self.args) == (other.op, other.sort, other.args)

    def __repr__(self) -> str:
        if self.op in ("const", "var"):
            return str(self.args[0])
        return f"({self.op} {' '.join(map(repr, self.args))})"

    @property
    def constant(self) -> Any:
        """Return the value of a constant, None for any other term."""
        return self.args[0] if self.op == "const" else None


def constant(value: int) -> Term:
    """Return a constant of the value's own sort."""
    # True and 1 are equal in Python; the sort distinguishes them.
    return (
        Term("const", (value,), BOOL)
        if isinstance(value, bool)
        else Term("const", (int(value),), INT)
    )


TRUE = constant(True)
FALSE = constant(False)


def variable(name: str, sort: str) -> Term:
    """Return a variable."""
    return Term("var", (name,), sort)


_FOLDED: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
}


def apply(op: str, a: Term, b: Term) -> Term:
    """Return an arithmetic operation or comparison. A divisor must be known not to be zero."""
    if a.op == "const" and b.op == "const":
        return constant(_FOLDED[op](a.args[0], b.args[0]))
    if a == b and op in ("<=", "=="):
        return TRUE
    if a == b and op == "<":
        return FALSE
    if (op in "+-" and b.constant == 0) or (op in ("*", "//") and b.constant == 1):
        return a
    if (op == "+" and a.constant == 0) or (op == "*" and a.constant == 1):
        return b
    return Term(op, (a, b), BOOL if op in ("<", "<=", "==") else INT)


def negate(term: Term) -> Term:
    """Return the opposite of a truth value."""
    if term.op == "const":
        return constant(not term.args[0])
    return term.args[0] if term.op == "not" else Term("not", (term,), BOOL)


def conjoin(terms: Iterable[Term]) -> Term:
    """Return the term that all of these hold."""
    parts = tuple(dict.fromkeys(term for term in terms if term != TRUE))
    if FALSE in parts:
        return FALSE
    if len(parts) < 2:
        return parts[0] if parts else TRUE
    return Term("and", parts, BOOL)


def disjoin(terms: Iterable[Term]) -> Term:
    """Return the term that at least one of these holds."""
    return negate(conjoin(negate(term) for term in terms))


def choose(condition: Term, then: Term, otherwise: Term) -> Term:
    """Return one of two terms of the same sort."""
    if condition.op == "const":
        return then if condition.args[0] else otherwise
    if then == otherwise:
        return then
    if (then, otherwise) == (TRUE, FALSE):
        return condition
    if (then, otherwise) == (FALSE, TRUE):
        return negate(condition)
    return Term("if", (condition, then, otherwise), then.sort)


def count(term: Term) -> Term:
    """Return a truth value as the number 0 or 1."""
    return choose(term, constant(1), constant(0)) if term.sort == BOOL else term


def evaluate(term: Term, values: Mapping[str, Any]) -> Any:
    """Return the value of a term, given those of its variables, as Python computes it."""
    known: dict[int, Any] = {}

    def visit(node: Term) -> Any:
        if id(node) not in known:
            known[id(node)] = compute(node)
        return known[id(node)]

    def compute(node: Term) -> Any:
        if node.op == "const":
            return node.args[0]
        if node.op == "var":
            return values[node.args[0]]
        if node.op == "not":
            return not visit(node.args[0])
        if node.op == "and":
            return all(visit(part) for part in node.args)
        if node.op == "if":
            return visit(node.args[1] if visit(node.args[0]) else node.args[2])
        return _FOLDED[node.op](visit(node.args[0]), visit(node.args[1]))

    return visit(term)


def translate(term: Term, z3: Any, memo: dict[Term, Any]) -> Any:
    """Return a term as a z3 expression; `memo` caches translated terms."""
    if term not in memo:
        memo[term] = _translate_node(term, z3, memo)
    return memo[term]


def _translate_node(term: Term, z3: Any, memo: dict[Term, Any]) -> Any:
    if term.op == "const":
        return z3.BoolVal(term.args[0]) if term.sort == BOOL else z3.IntVal(term.args[0])
    if term.op == "var":
        return z3.Bool(term.args[0]) if term.sort == BOOL else z3.Int(term.args[0])
    args = [translate(arg, z3, memo) for arg in term.args]
    if term.op == "not":
        return z3.Not(args[0])
    if term.op == "and":
        return z3.And(*args)
    if term.op == "if":
        return z3.If(*args)
    if term.op in ("//", "%"):
        return _translate_division(term, args[0], args[1], z3)
    return {
        "+": lambda a, b: a + b,
        "-": lambda a, b: a - b,
        "*": lambda a, b: a * b,
        "<": lambda a, b: a < b,
        "<=": lambda a, b: a <= b,
        "==": lambda a, b: a == b,
    }[term.op](*args)


def _translate_division(term: Term, a: Any, b: Any, z3: Any) -> Any:
    # For a positive divisor z3 rounds as Python does. a // b == (-a) // (-b), and
    # a % b == -((-a) % (-b)), extend that to a negative one.
    divisor = term.args[1].constant
    above = a / b if term.op == "//" else a % b
    if divisor is not None and divisor > 0:
        return above
    below = (-a) / (-b) if term.op == "//" else -((-a) % (-b))
    if divisor is not None:
        return below
    return z3.If(b > 0, above, below)
