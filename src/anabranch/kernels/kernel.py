"""Kernels: fold a batch of events into the states of many slots.

There are two kernels with one interface and the same results. The interpreted kernel defines the
results; the compiled kernel is generated from the same functions, where they can be translated exactly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

from anabranch.errors import MissingExtraError
from anabranch.kernels.availability import MISSING_NUMBA, find_obstacle
from anabranch.kernels.batches import EventBatch, Folded
from anabranch.kernels.column_layouts import ColumnLayout
from anabranch.kernels.compiled import CompiledKernel
from anabranch.kernels.interpreted import InterpretedKernel
from anabranch.kernels.numpy_columns import Columns
from anabranch.kernels.translate.loop_source import draw
from anabranch.model.events import EventType
from anabranch.model.handlers import Handler
from anabranch.model.program import Program, StateType
from anabranch.model.shapes import MISSING, AnyState, Shape

Choice = Literal["auto", "compiled", "interpreted"]


class Kernel(Protocol):
    """Fold events into states; the caller assigns each event to a state and fixes the order.

    A slot holds the state that one handler sees: an entry of a map, a lane, or the whole state where
    it has no entries.
    """

    @property
    def handlers(self) -> tuple[Handler, ...]: ...
    @property
    def event_types(self) -> tuple[EventType, ...]: ...
    @property
    def layout(self) -> ColumnLayout: ...
    @property
    def reasons(self) -> tuple[str | None, ...]: ...
    def fold(self, states: Columns, batch: EventBatch) -> Folded: ...


class CompileVerdict(NamedTuple):
    """Whether an event type's handler is compiled for one state type, and the reason if it is not."""

    state: str
    event_type: str
    reason: str | None

    def __str__(self) -> str:
        return "compiled" if self.reason is None else f"interpreted: {self.reason}"


def make_kernel(
    of: StateType | tuple[Sequence[Handler], Shape],
    choice: Choice = "auto",
    *,
    examples: Sequence[AnyState] = (),
) -> Kernel:
    """Return the kernel of a state type's slots, or of handlers that see a state of some shape.

    `auto` compiles where possible. `compiled` requires Numba; `interpreted` uses plain Python.
    The types of a state are read from its init and zero, and from the results of its updates; a
    state that has neither, because only forks create it, needs `examples`.
    """
    handlers, shape = _find_slots(of) if isinstance(of, StateType) else (tuple(of[0]), of[1])
    if choice == "interpreted":
        return InterpretedKernel(handlers)
    obstacle = find_obstacle()
    if obstacle is not None and choice == "compiled":
        raise MissingExtraError(
            "compiled kernels need Numba",
            expected="numba and numpy",
            got="neither or one of them" if obstacle == MISSING_NUMBA else obstacle,
            cure="pip install 'anabranch[kernels]', or use choice='auto'"
            if obstacle == MISSING_NUMBA
            else "unset NUMBA_DISABLE_JIT, or use choice='auto'",
        )
    blueprint = draw(handlers, [*_starts(shape), *examples])
    if blueprint.source and obstacle is None:
        return CompiledKernel(handlers, blueprint)
    reasons = [obstacle if r is None else r for r in blueprint.reasons]
    return InterpretedKernel(handlers, blueprint.state, tuple(reasons))


def explain_kernel(program: Program) -> tuple[CompileVerdict, ...]:
    """Return, for each state type and event type of a program, whether its handler is compiled.

    This compiles nothing: a failure of Numba shows only after the first fold.
    """
    verdicts = []
    for state_type in program.state_types:
        kernel = make_kernel(state_type)
        reasons = dict(zip(kernel.event_types, kernel.reasons, strict=True))
        for event_type, handler in state_type.handlers.items():
            reason = (
                reasons[event_type]
                if event_type in reasons
                else f"{_line(handler)} sees all entries at once"
            )
            verdicts.append(CompileVerdict(state_type.name, event_type.__name__, reason))
    return tuple(verdicts)


def _find_slots(state_type: StateType) -> tuple[tuple[Handler, ...], Shape]:
    """Return the handlers that see a single slot, and the shape of a slot."""
    shape: Any = state_type.shape
    levels = set()
    while shape.by is not None:
        levels.add(shape.by)
        shape = shape.inner
    own = [handler for handler in state_type.handlers.values() if levels <= handler.enters]
    return tuple(own), shape


def _starts(shape: Shape) -> list[Any]:
    return [start for start in (shape.init, shape.zero) if start is not MISSING]


def _line(handler: Handler) -> str:
    return os.path.basename(str(handler.where))
