"""What a user may write in a function that is compiled."""

import pickle
import random
import sys
from typing import NamedTuple

import pytest

from anabranch import Program, depends, on
from anabranch.errors import MissingExtraError
from anabranch.kernels import explain_kernel, fill, gather, make_kernel
from anabranch.kernels.column_layouts import Leaf, OptionalColumn
from anabranch.kernels.compiled import CompiledKernel
from anabranch.kernels.interpreted import InterpretedKernel
from anabranch.model.shapes import WrittenShape
from anabranch.state import ExactSum, MapOf, Sum
from tests.kernels.differences import check_same, compile_handlers, show
from tests.kernels.stories import GOOD, REFUSED, Tick


def some_ticks(seed, count=400):
    draw = random.Random(seed)
    return [
        (
            draw.randrange(5),
            Tick(
                n,
                draw.randrange(-2, 9),
                draw.choice([-1.0, 0.0, 2.25, 9.5, 1e20]),
                draw.choice(["a", "b", "c", "", "boom"]),
                draw.choice([None, 0, -4, n]),
            ),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize("name", GOOD)
def test_differential_on_what_users_write(name):
    handlers, start = GOOD[name]
    kernel = compile_handlers(handlers, [start])
    _, emitted = check_same(kernel, [start] * 5, some_ticks(name))
    assert any(emitted.values())


@pytest.mark.parametrize("name", REFUSED)
def test_differential_on_what_stays_interpreted(name):
    handler, start = REFUSED[name]
    kernel = make_kernel(([handler], WrittenShape(init=start)))
    assert isinstance(kernel, InterpretedKernel)
    check_same(kernel, [start] * 5, some_ticks(name, 50))


class Tock(NamedTuple):
    time: int
    n: int


@pytest.mark.parametrize("outputs", [
    (lambda s, e: e.n, lambda s, e: f"{e.n}"),
    (lambda s, e: e.n, lambda s, e: [f"{e.n}", s, e.n]),
    (lambda s, e: [s, s, s + 2**62 * (e.n // 7)], lambda s, e: None),
])  # fmt: skip
def test_what_python_says_takes_no_room_from_what_the_loop_will_say(outputs):
    """Machine code writes where it is told to: behind the end of an array, too."""
    first, second = outputs
    handlers = [
        on(Tick, update=lambda s, e: s + 1, output=first),
        on(Tock, update=lambda s, e: s, output=second),
    ]
    kernel = make_kernel((handlers, WrittenShape(init=0)), "compiled")
    ticks = [(0, Tick(n, n % 20, 0.0, "")) for n in range(40)]
    tocks = [(0, Tock(n, n)) for n in range(40)]
    for events in (tocks + ticks, ticks + tocks, [e for pair in zip(tocks, ticks) for e in pair]):  # noqa: B905
        folded, emitted = check_same(kernel, [0], events)
        assert folded.stepped < len(events)
        assert len(emitted["emitted"]) >= 40


def test_two_lambdas_on_a_line_are_told_apart():
    handlers, start = GOOD["two on a line"]
    kernel = compile_handlers(handlers, [start])
    folded, _ = check_same(kernel, [10], [(0, Tick(0, 3, 0.0, ""))])
    assert (folded.states.unpack(), folded.outputs()) == ([13], [7])


def test_the_types_of_a_state_are_read_from_what_updates_make_of_it():
    assert compile_handlers(*_story("grows")).layout == OptionalColumn(Leaf("float"))
    assert compile_handlers(*_story("calls")).layout == OptionalColumn(Leaf("int"))


def _story(name):
    handlers, start = GOOD[name]
    return handlers, [start]


class Add(NamedTuple):
    time: int
    n: int


class Odd(NamedTuple):
    time: int
    n: int


def test_a_event_type_that_can_not_be_compiled_is_stepped_over():
    handlers = [
        on(Add, update=lambda s, e: s + e.n),
        on(Odd, update=lambda s, e: s + len(str(e.n)), output=lambda s, e: f"had {s}"),
    ]
    kernel = make_kernel((handlers, Sum()), "compiled")
    assert kernel.reasons[0] is None
    assert kernel.reasons[1] == f"test_translation.py:{handlers[1].where.line} calls str on an int"
    events = [(n % 3, Odd(n, n) if n % 40 == 7 else Add(n, n)) for n in range(400)]
    folded, emitted = check_same(kernel, [0, 0, 0], events)
    assert folded.stepped == 10
    assert emitted["emitted"][0] == (7, 0, "str 'had 5'")


def test_a_field_that_does_not_fit_its_column_is_left_to_python():
    kernel = compile_handlers([on(Add, update=lambda s, e: s + e.n)], [0])
    folded, emitted = check_same(
        kernel, [0], [(0, Add(0, 1)), (0, Add(1, 2**64)), (0, Add(2, True))]
    )
    assert emitted["states"] == [f"int {2**64 + 2}"]
    assert folded.stepped == 3


def test_fields_that_no_function_reads_may_be_anything():
    class Loaded(NamedTuple):
        time: int
        n: int
        event_types: list[str]

    kernel = compile_handlers([on(Loaded, update=lambda s, e: s + e.n)], [0])
    folded, _ = check_same(kernel, [0], [(0, Loaded(0, 1, ["x"])), (0, Loaded(1, 5, []))])
    assert (folded.states.unpack(), folded.stepped) == ([6], 0)


def test_states_and_events_may_have_lists_of_texts_of_their_own():
    kernel = compile_handlers(*_story("text"))
    states = fill(kernel.layout, "a", 1)
    folded = kernel.fold(states, gather(kernel.event_types, [(0, Tick(0, 0, 0.0, "zz"))]))
    assert (folded.states.unpack(), folded.outputs()) == (["zz"], [True])


def test_a_kernel_travels_without_the_users_channel():
    kernel = compile_handlers(*_story("nested"))
    source = kernel.blueprint.source
    assert pickle.loads(pickle.dumps(kernel.blueprint)).source == source


def test_outputs_of_one_form_share_columns():
    from examples.fraud import Rule, Totals, Txn, fraud

    kernel = make_kernel(fraud.initial, "compiled")
    events = [(0, Txn(1, 7)), (0, Rule(2)), (0, Txn(3, 1007)), (0, Txn(4, 1)), (0, Rule(5))]
    folded = kernel.fold(fill(kernel.layout, Totals(0, 0), 1), gather(kernel.event_types, events))
    assert folded.outputs() == [("rule", 7), ("txn", 1007), ("rule", 1008)]
    assert folded.places.tolist() == [1, 2, 4]
    assert [[a.tolist() for a in columns.arrays] for columns in folded.values] == [
        [[1007]],
        [[7, 1008]],
        [[]],
    ]


def test_plain_python_can_be_insisted_on():
    kernel = make_kernel(([on(Add, update=lambda s, e: s + e.n)], Sum()), "interpreted")
    assert isinstance(kernel, InterpretedKernel)
    folded = kernel.fold(fill(Leaf("int"), 0, 1), gather(kernel.event_types, [(0, Add(0, 2))]))
    assert show(folded) == {"states": ["int 2"], "emitted": [], "failed": []}


def test_without_numba_all_is_interpreted_and_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    story = ([on(Add, update=lambda s, e: s + e.n)], Sum())
    kernel = make_kernel(story)
    assert isinstance(kernel, InterpretedKernel)
    assert kernel.reasons == ("numba is not installed",)
    with pytest.raises(MissingExtraError) as caught:
        make_kernel(story, "compiled")
    assert "pip install 'anabranch[kernels]'" in str(caught.value)


def test_lanes_and_entries_are_slots():
    program = Program(
        on(Add, update=lambda s, e: s + e.n * 0.5),
        on(Odd, output=lambda s, e: s),
        depends(Odd, Add, Odd),
        state=Sum(0.0),
        lanes=2,
    )
    kernel = make_kernel(program.initial)
    assert isinstance(kernel, CompiledKernel)
    assert kernel.event_types == (Add,)
    line = program.initial.handlers[Odd].where.line
    assert [str(v) for v in explain_kernel(program)] == [
        "compiled",
        f"interpreted: test_translation.py:{line} sees all entries at once",
    ]


def test_an_exact_sum_is_interpreted_for_a_reason():
    exact_sum = ExactSum()
    program = Program(
        on(Add, update=lambda s, e: exact_sum.add(s, e.n)),
        depends(Add, Add, same="n"),
        state=MapOf(exact_sum, by="n"),
    )
    (verdict,) = explain_kernel(program)
    assert verdict[:2] == ("state", "Add")
    assert str(verdict) == (
        f"interpreted: test_translation.py:{program.initial.handlers[Add].where.line} calls "
        "ExactSum.add, which calls _require_number, which uses `is` on something other than None"
    )


def test_importing_kernels_pulls_in_neither_numba_nor_numpy():
    import subprocess

    probe = "import sys, anabranch.kernels; print({'numba', 'numpy'} & set(sys.modules))"
    answer = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True
    )
    assert answer.stdout == "set()\n"
