"""The corpus: all cases by name, in the order of the table."""

from bench.ordinary import joins, memories, rules, shapes, windows
from bench.ordinary.cases import Case

CASES: dict[str, Case] = {
    case.name: case for module in (windows, rules, joins, shapes, memories) for case in module.CASES
}


def choose_cases(only: tuple[str, ...]) -> tuple[Case, ...]:
    """Return the cases whose names begin with one of the words; all, if none is given."""
    for word in only:
        if not any(name.startswith(word) for name in CASES):
            raise ValueError(f"There is no program '{word}'. Existing: {', '.join(CASES)}.")
    return tuple(case for name, case in CASES.items() if not only or name.startswith(only))
