"""The reason why a function is interpreted names the line to change."""

from datetime import datetime
from typing import NamedTuple

import pytest

from anabranch import Program, on
from anabranch.kernels import CompileVerdict, explain_kernel, make_kernel
from anabranch.model.shapes import WrittenShape
from tests.kernels.differences import check_same
from tests.kernels.stories import REFUSED, Tick

REASONS = {
    "dict": "uses the dict rates",
    "dict display": "uses a dict",
    "f-string": "uses an f-string",
    "comprehension": "uses a list comprehension",
    "float power": "uses ** on floats; write x * x for x ** 2",
    "int becomes float": "makes int in the state into float; start it from 0.0",
    "bool becomes int": "makes bool in the state into int",
    "branch types": "is int on one path and float on another",
    "max types": "takes the max of int and float",
    "logarithm": "calls math.log, which may differ in the last bit",
    "text order": "uses < on texts",
    "text sum": "uses + on a str",
    "method": "reads upper of a str",
    "print": "calls print",
    "big constant": "uses a constant of more than 64 bits",
    "state": "keeps a frozenset in its state",
    "other record": "makes Nested in the state into tuple of 2",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_reason_names_the_line_and_what_stands_there(name):
    handler, start = REFUSED[name]
    kernel = make_kernel(([handler], WrittenShape(init=start)))
    assert kernel.reasons == (f"stories.py:{handler.where.line} {REASONS[name]}",)


def test_a_state_without_init_says_that_nothing_tells_its_types():
    kernel = make_kernel(([on(Tick, update=lambda s, e: s)], WrittenShape()))
    assert kernel.reasons[0].endswith(
        " has a state without init: the types of its fields are unknown"
    )


def test_a_function_without_channel_says_so():
    made: dict = {}
    exec("update = lambda state, event: state + 1", made)
    kernel = make_kernel(([on(Tick, update=made["update"])], WrittenShape(init=0)))
    assert kernel.reasons == ("<string>:1 has no source file for a lambda",)


def test_a_file_that_changed_since_it_was_loaded_is_not_believed(tmp_path):
    import importlib.util
    import linecache

    file = tmp_path / "changing.py"
    file.write_text("def update(state, event):\n    return state + 1\n")
    spec = importlib.util.spec_from_file_location("changing", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    file.write_text("def update(state, event):\n    return state + 2\n")
    linecache.checkcache()
    kernel = make_kernel(([on(Tick, update=module.update)], WrittenShape(init=0)))
    assert kernel.reasons == ("changing.py:1 has changed since update was loaded",)


def recurse(state, event):
    return recurse(state, event) if event.n else state


def test_recursion_ends_with_a_reason():
    kernel = make_kernel(([on(Tick, update=recurse)], WrittenShape(init=0)))
    assert kernel.reasons[0].endswith("calls recurse more than 24 deep")


def test_a_loop_that_returns_says_so():
    def update(state, event):
        for n in range(event.n):
            if n > 3:
                return n
        return state

    kernel = make_kernel(([on(Tick, update=update)], WrittenShape(init=0)))
    line = update.__code__.co_firstlineno + 1
    assert kernel.reasons == (f"test_reasons.py:{line} returns from inside a loop",)


def test_a_program_is_explained_event_type_by_event_type():
    from examples.taxi_tips import Hour, taxi_tips

    line = taxi_tips.initial.handlers[Hour].where.line
    assert explain_kernel(taxi_tips) == (
        CompileVerdict("state", "Tip", None),
        CompileVerdict("state", "Hour", f"taxi_tips.py:{line} sees all entries at once"),
    )


def test_a_program_of_several_state_types_is_explained_type_by_type():
    from examples.smart_home import smart_home

    assert [(v.state, v.event_type, v.reason is None) for v in explain_kernel(smart_home)] == [
        ("home", "Temp", False),
        ("home", "Pressure", False),
        ("home", "Minute", False),
        ("rooms", "Temp", True),
        ("gauge", "Pressure", False),
    ]


def test_what_is_compiled_says_so():
    program = Program(on(Tick, update=lambda s, e: s + e.n), init=0)
    assert [str(verdict) for verdict in explain_kernel(program)] == ["compiled"]


@pytest.mark.parametrize("fault", [
    ("numba.njit", "TypingError", "cannot determine the type\n of nothing"),
    ("anabranch.kernels.code_cache._name", "ImportError", "Numba needs NumPy 1.9 or less"),
    ("anabranch.kernels.code_cache._run", "RuntimeError", "LLVM will not"),
])  # fmt: skip
def test_where_numba_fails_python_folds_and_the_reason_is_told(monkeypatch, fault):
    place, kind, text = fault

    def fail(*args, **options):
        raise type(kind, (Exception,), {})(text)

    monkeypatch.setattr(place, fail)
    # A source of its own for each fault: nobody has compiled it before.
    number = len(text)
    program = Program(on(Tick, update=lambda s, e: s + e.n * number, output=lambda s, e: s), init=0)
    kernel = make_kernel(program.initial)
    assert explain_kernel(program) == (CompileVerdict("state", "Tick", None),)
    reason = f"Numba failed: {kind}: {' '.join(text.split())}"
    events = [(0, Tick(1, 2, 0.0, "")), (0, Tick(2, 3, 0.0, ""))]
    with pytest.warns(UserWarning, match=f"a kernel is interpreted: {reason}"):
        _, emitted = check_same(kernel, [0], events)
    assert emitted["emitted"] == [(0, 0, "int 0"), (1, 0, f"int {2 * number}")]
    assert kernel.reasons == (reason,)
    assert explain_kernel(program) == (CompileVerdict("state", "Tick", reason),)
    assert str(explain_kernel(program)[0]) == f"interpreted: {reason}"
    # It is said once, and not tried with each batch.
    check_same(kernel, [0], events)


def test_without_numba_nothing_is_said_to_be_compiled(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    program = Program(on(Tick, update=lambda s, e: s + e.n), init=0)
    assert explain_kernel(program) == (CompileVerdict("state", "Tick", "numba is not installed"),)


def test_where_numba_fails_numpy_sorts_and_python_looks_up(monkeypatch):
    import sys

    import numpy as np

    from anabranch.kernels.arrays import indexes, ordering

    for name in ("passes", "probes"):
        monkeypatch.setitem(sys.modules, f"anabranch.kernels.arrays.{name}", None)
        monkeypatch.delattr(f"anabranch.kernels.arrays.{name}", raising=False)
    monkeypatch.setattr(ordering, "_passes", ordering._passes.__wrapped__)
    monkeypatch.setattr(indexes, "_probe", indexes._probe.__wrapped__)
    keys = np.array([7, 9, 7])
    with pytest.warns(UserWarning, match="batches are sorted by NumPy: Numba failed"):
        slots, distinct = ordering.group(keys)
    assert (slots.tolist(), distinct.tolist()) == ([0, 1, 0], [7, 9])
    with pytest.warns(UserWarning, match="keys are looked up in Python: Numba failed"):
        assert indexes.Index().find(keys).tolist() == [0, 1, 0]


def test_a_state_that_becomes_a_record_without_columns_is_not_compiled_by_any_handler():
    # The second handler alone could be compiled; the record that the first one keeps has no column.
    kernel = make_kernel(
        (
            [
                on(Moved, update=lambda last, moved: moved),
                on(Tick, output=lambda last, tick: None if last is None else last.level),
            ],
            WrittenShape(init=None),
        )
    )
    assert kernel.reasons[1].endswith(" has a state with at, which has no column")


class Moved(NamedTuple):
    time: int
    at: datetime
    level: int
