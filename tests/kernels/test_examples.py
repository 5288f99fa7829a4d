"""Every example's slots fold to the same states and outputs, compiled and interpreted."""

import random
from pathlib import Path

import pytest

from anabranch import Event, load
from anabranch.kernels import make_kernel
from anabranch.kernels.compiled import CompiledKernel
from anabranch.model.shapes import MISSING
from anabranch.model.targets import load_module
from tests.kernels.differences import check_same

ROOT = Path(__file__).parents[2]
NAMES = [file.stem for file in sorted((ROOT / "examples").glob("*.py"))]


def load_example(name):
    file = ROOT / "examples" / f"{name}.py"
    return load(f"{file}:{name}"), load_module(str(file))


def inner_shape(state_type):
    shape, by = state_type.shape, []
    while shape.by is not None:
        by.append(shape.by)
        shape = shape.inner
    return shape, by


def slot_events(program, module, kernel, by):
    """Return the example's events in order, each with the number of its key."""
    keys: dict = {}
    events = sorted((e for e in module.events if isinstance(e, Event)), key=program.order)
    for event in events:
        if type(event.data) in kernel.event_types:
            key = tuple(getattr(event.data, name) for name in by)
            yield keys.setdefault(key, len(keys)), event.data


@pytest.mark.parametrize("name", NAMES)
def test_differential_on_the_examples_own_events(name):
    program, module = load_example(name)
    for state_type in program.state_types:
        shape, by = inner_shape(state_type)
        examples = [module.Gauge()] if state_type.name == "gauge" else []
        kernel = make_kernel(state_type, examples=examples)
        start = examples[0] if shape.init is MISSING else shape.init
        events = list(slot_events(program, module, kernel, by))
        slots = 1 + max(slot for slot, _ in events)
        check_same(kernel, [start] * slots, events)


@pytest.mark.parametrize("name", ["value_barrier", "ewma", "fraud", "key_counter", "page_view"])
def test_outputs_of_a_compiled_example_are_the_expected_ones(name):
    program, module = load_example(name)
    kernel = make_kernel(program.initial, "compiled")
    assert isinstance(kernel, CompiledKernel)
    shape, by = inner_shape(program.initial)
    events = list(slot_events(program, module, kernel, by))
    folded, _ = check_same(kernel, [shape.init] * len(events), events)
    assert folded.outputs() == module.expected
    assert folded.stepped == 0


@pytest.mark.parametrize("name", ["fraud", "inc_dec", "ewma", "page_view"])
def test_differential_on_many_slots_in_any_order(name):
    program, module = load_example(name)
    kernel = make_kernel(program.initial)
    shape, _ = inner_shape(program.initial)
    draw = random.Random(name)
    data = [event.data for event in module.events if isinstance(event, Event)]
    events = [(draw.randrange(500), draw.choice(data)) for _ in range(5000)]
    folded, _ = check_same(kernel, [shape.init] * 500, events)
    assert folded.stepped == 0
