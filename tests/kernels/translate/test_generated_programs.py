"""Programs that nobody wrote fold the same, compiled and interpreted.

Hypothesis writes functions as text, each into one module; one kernel compiles several at once,
because compiling is what takes the time.
"""

import importlib.util
import itertools
import math
import random
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anabranch import on
from anabranch.kernels import make_kernel
from anabranch.model.shapes import WrittenShape
from tests.kernels.differences import check_same

HEAD = """
import math
from typing import NamedTuple

LIMIT = 10
SCALE = 0.25
WORDS = ("a", "b")

class State(NamedTuple):
    n: int = 0
    x: float = 0.0
    b: bool = False
    s: str = "a"
    o: int | None = None

    def raised(self, by):
        return self._replace(n=self.n + by)

class Event(NamedTuple):
    time: int
    i: int
    f: float
    g: bool
    t: str
    o: int | None

def clamp(value, low, high):
    if value < low:
        return low
    if value > high:
        return high
    return value

def other(value, instead):
    return instead if value is None else value
"""

LEAVES = {
    int: ["s.n", "e.i", "LIMIT", "1", "-3", "0", "1099511627776", "other(s.o, 2)"],
    float: ["s.x", "e.f", "SCALE", "0.5", "-0.0", "1e10"],
    bool: ["s.b", "e.g", "True", "(s.s == e.t)", "(e.t in WORDS)", "(s.o is None)"],
    str: ["s.s", "e.t", "'b'", "'c'"],
}
MADE = {
    int: [
        ("({} + {})", (int, int)),
        ("({} - {})", (int, int)),
        ("({} * {})", (int, int)),
        ("({} // {})", (int, int)),
        ("({} % {})", (int, int)),
        ("({} & {})", (int, int)),
        ("({} ^ {})", (int, int)),
        ("({} >> 2)", (int,)),
        ("(-{})", (int,)),
        ("abs({})", (int,)),
        ("max({}, {})", (int, int)),
        ("min({}, {}, 7)", (int, int)),
        ("int({})", (float,)),
        ("round({})", (float,)),
        ("({} + {})", (bool, bool)),
        ("int({})", (bool,)),
        ("clamp({}, -50, {})", (int, int)),
        ("({} if {} else {})", (int, bool, int)),
        ("(e.o or {})", (int,)),
        ("(0 if e.o is None else e.o + {})", (int,)),
    ],
    float: [
        ("({} + {})", (float, float)),
        ("({} - {})", (float, int)),
        ("({} * {})", (float, float)),
        ("({} / {})", (float, float)),
        ("({} / {})", (int, int)),
        ("({} // {})", (float, float)),
        ("({} % {})", (float, float)),
        ("max({}, {})", (float, float)),
        ("min({}, {})", (float, float)),
        ("float({})", (int,)),
        ("math.fabs({})", (float,)),
        ("clamp({}, 0.0, {})", (float, float)),
        ("({} if {} else {})", (float, bool, float)),
    ],
    bool: [
        ("({} < {})", (int, int)),
        ("({} == {})", (int, float)),
        ("({} >= {})", (float, float)),
        ("({} < {} <= {})", (int, int, int)),
        ("({} and {})", (bool, bool)),
        ("({} or {})", (bool, bool)),
        ("(not {})", (bool,)),
        ("({} ^ {})", (bool, bool)),
        ("math.isnan({})", (float,)),
        ("(e.o is not None and e.o > {})", (int,)),
    ],
    str: [("({} if {} else {})", (str, bool, str))],
}


@st.composite
def expression(draw, kind, depth=2):
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from(LEAVES[kind]))
    template, kinds = draw(st.sampled_from(MADE[kind]))
    return template.format(*(draw(expression(k, depth - 1)) for k in kinds))


@st.composite
def update(draw, name):
    lines = [f"def {name}(s, e):", f"    k = {draw(expression(int))}"]
    lines.append(f"    if {draw(expression(bool))}:")
    lines.append(
        draw(
            st.sampled_from(
                [
                    f"        return s.raised({draw(expression(int, 2))})",
                    f"        k = {draw(expression(int, 2))} + k",
                    f"        return s._replace(o=None, x={draw(expression(float, 2))})",
                ]
            )
        )
    )
    if draw(st.booleans()):
        lines.append("    for step in range(e.i % 4):")
        lines.append(f"        k = clamp(k - step, -9, {draw(expression(int, 1))})")
    kinds = (float, bool, str)
    rest = ", ".join(draw(expression(kind)) for kind in kinds)
    lines.append(
        f"    return State(k, {rest}, {draw(st.sampled_from(['k', 'None', 's.o', 'e.o']))})"
    )
    return "\n".join(lines)


@st.composite
def output(draw, name):
    body = [f"def {name}(s, e):"]
    test, value = draw(expression(bool)), draw(expression(int))
    style = draw(st.sampled_from(["return", "list", "yield", "maybe", "text"]))
    emitted = f"('x', {value}, {draw(expression(float, 2))}, e.t, s.o)"
    if style == "return":
        body.append(f"    return {emitted} if {test} else {draw(expression(float))}")
    elif style == "list":
        body.append(f"    return [{emitted}, {draw(expression(bool))}] if {test} else []")
    elif style == "yield":
        body += [f"    if {test}:", f"        yield {value}", f"    yield {emitted}"]
    elif style == "text":  # Not translated: Python says this, between what the loop says.
        body.append(f"    return f'{{e.i}}' if {test} else {emitted}")
    else:
        body += [f"    if {test}:", "        return None", f"    return {emitted}"]
    return "\n".join(body)


INTS = [-(2**63), -(2**53) - 1, -1, 0, 1, 3, 1000, 2**53 + 1, 2**63 - 1]
FLOATS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 0.5, -2.5, 3.0, 2.0**53, 1e308]
ints = st.sampled_from(INTS) | st.integers(-20, 20)
event_fields = st.tuples(
    st.just(0),
    ints,
    st.sampled_from(FLOATS) | st.floats(width=32),
    st.booleans(),
    st.sampled_from(["a", "b", "", "é"]),
    st.none() | ints,
)


def make_events(seed):
    """Return many events, most of them of a size that no number outgrows."""
    rng = random.Random(seed)
    for _ in range(100):
        i = rng.choice([rng.randint(-20, 20), rng.randint(1, 1000), rng.choice(INTS)])
        f = rng.choice([rng.uniform(-10, 10), rng.randint(-9, 9) / 2, rng.choice(FLOATS)])
        o = rng.choice([None, rng.randint(-20, 20)])
        fields = (0, i, f, rng.random() < 0.5, rng.choice(["a", "b", "", "é"]), o)
        yield rng.randrange(COUNT), rng.randrange(3), fields


COUNT = 2
REFUSED = (" uses a constant of more than 64 bits", " uses an f-string")
FILES = itertools.count()


@settings(
    max_examples=5,
    # Each try compiles, so a smaller case would take minutes to find.
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(
    st.tuples(*(update(f"update{n}") for n in range(COUNT))),
    st.tuples(*(output(f"output{n}") for n in range(COUNT))),
    st.lists(st.tuples(st.integers(0, COUNT - 1), st.integers(0, 2), event_fields), max_size=60),
    st.integers(0, 2**32),
)
def test_differential_on_programs_that_hypothesis_wrote(
    tmp_path_factory, updates, outputs, events, seed
):
    file = tmp_path_factory.getbasetemp() / f"generated_{next(FILES)}.py"
    file.write_text("\n\n".join([HEAD, *updates, *outputs]) + "\n", encoding="utf-8")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    event_types = [
        NamedTuple(f"Event{n}", module.Event.__annotations__.items()) for n in range(COUNT)
    ]
    handlers = [
        on(event_type, update=getattr(module, f"update{n}"), output=getattr(module, f"output{n}"))
        for n, event_type in enumerate(event_types)
    ]
    kernel = make_kernel((handlers, WrittenShape(init=module.State())), "compiled")
    # Constants are Python's to calculate, and may come to more than a column holds.
    assert all(r is None or r.endswith(REFUSED) for r in kernel.reasons)
    starts = [module.State(), module.State(5, -1.5, True, "b", 4), module.State(o=-1)]
    more = list(make_events(seed))
    # In short folds, so that a state which outgrows its columns does not leave the rest to Python.
    for part in (events, *(more[place : place + 20] for place in range(0, len(more), 20))):
        check_same(kernel, starts, [(slot, event_types[n](*fields)) for n, slot, fields in part])
