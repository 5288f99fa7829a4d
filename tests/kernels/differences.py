"""Two kernels, one answer: what every test here compares, to the bit and the type."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from anabranch.kernels import Columns, Folded, Strings, gather, make_kernel
from anabranch.kernels.compiled import CompiledKernel
from anabranch.kernels.numpy_columns import pack_or_keep
from anabranch.model.handlers import Handler
from anabranch.model.shapes import Shape, WrittenShape


def exact(value: Any) -> Any:
    """Return a value such that only the same value of the same type is equal to it."""
    if isinstance(value, tuple):
        return (type(value).__qualname__, *map(exact, value))
    if dataclasses.is_dataclass(value):
        return (type(value).__qualname__, *map(exact, vars(value).values()))
    if type(value) is float and math.isnan(value):
        return "nan"
    return f"{type(value).__name__} {value!r}"


def show(folded: Folded) -> dict[str, list[Any]]:
    return {
        "states": [exact(state) for state in folded.states.unpack()],
        "emitted": [
            (place, index, exact(value))
            for place, index, value in zip(
                folded.places.tolist(), folded.indexes.tolist(), folded.outputs(), strict=True
            )
        ],
        "failed": [(place, failed.kind, str(failed.error)) for place, failed in folded.failures],
    }


def compile_handlers(handlers: Sequence[Handler], starts: Sequence[Any]) -> CompiledKernel:
    shape: Shape = WrittenShape(init=starts[0])
    kernel = make_kernel((handlers, shape), "compiled", examples=starts[1:])
    assert kernel.reasons == (None,) * len(handlers), kernel.reasons
    assert isinstance(kernel, CompiledKernel)
    return kernel


def fold_both(
    kernel: Any, states: Sequence[Any], events: Sequence[tuple[int, Any]]
) -> tuple[Folded, Folded]:
    """Fold with a kernel and with the interpreted one, each from states of its own."""
    answers = []
    for chosen in (kernel, make_kernel((kernel.handlers, WrittenShape()), "interpreted")):
        strings = Strings()
        held: Columns = pack_or_keep(kernel.layout, list(states), strings)
        answers.append(chosen.fold(held, gather(chosen.event_types, events, strings)))
    return answers[0], answers[1]


def check_same(
    kernel: Any, states: Sequence[Any], events: Sequence[tuple[int, Any]]
) -> tuple[Folded, dict[str, list[Any]]]:
    """Assert that both kernels say the same; return what they said."""
    compiled, interpreted = fold_both(kernel, states, events)
    emitted = show(compiled)
    assert emitted == show(interpreted)
    return compiled, emitted
