"""Whether a state can be stored is known before anything runs, as far as a program tells."""

import dataclasses
from typing import Any, NamedTuple

import pytest

from anabranch import Event, Program, depends, on
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.state import ExactMean, ExactSum, ExactVariance, MapOf, Value
from anabranch.state.durable.codec import make_codec
from anabranch.state.durable.durability_check import check_durable
from anabranch.state.durable.durable_names import CodecError
from tests.microbatch.test_microbatches import Engine, to_row


class Level(NamedTuple):
    time: int
    k: int
    v: float


class Noted(NamedTuple):
    n: int = 0
    inner: Any = None


class Handle:
    """Something that only this process knows."""


class Holding(NamedTuple):
    n: int = 0
    handle: Handle | None = None


@dataclasses.dataclass(frozen=True)
class Deep:
    parts: dict[str, list[Holding]] = dataclasses.field(default_factory=dict)


def count(start):
    return Program(
        on(Level, update=lambda s, e: s), depends(Level, Level, same="k"),
        state=MapOf(Value(start), by="k"),
    )  # fmt: skip


@pytest.mark.parametrize("inner", [ExactSum(), ExactMean(), ExactVariance()], ids=repr)
def test_a_ready_made_state_may_be_part_of_ones_own_record(inner):
    program = Program(
        on(
            Level,
            update=lambda s, e: Noted(s.n + 1, inner.add(s.inner or inner.zero, e.v)),
            output=lambda s, e: None if s.inner is None else inner.value(s.inner),
        ),
        depends(Level, Level),
        init=Noted(),
    )
    check_durable(program)
    channels = (Channel("a"),)
    items = end_channels([Event(Level(n, 0, 1.5), "a", n) for n in range(3)], channels=channels)
    engine = Engine(program, channels, 2)
    for item in items:
        engine.batch([[to_row(item)]])
    expected = inner.value(inner.add(inner.add(inner.zero, 1.5), 1.5))
    assert [row.value for row in engine.emitted if row.kind == "output"][-1] == str(expected)
    codec = make_codec(program)
    state = Noted(1, inner.add(inner.zero, 1.5))
    assert codec.decode(codec.encode(state)) == state


@pytest.mark.parametrize(
    ("start", "what"),
    [
        (Handle(), "the init of state"),
        (Holding(), "the field 'handle' of Holding"),
        (Deep(), "the field 'handle' of Holding"),
        ((1, [Handle()]), "the init of state"),
    ],
    ids=["a value", "a field", "a field within", "a value within"],
)
def test_what_can_not_be_stored_is_refused_before_anything_runs(start, what):
    program = (
        count(start)
        if isinstance(start, Holding | Deep)
        else Program(on(Level, update=lambda s, e: s), init=start)
    )
    with pytest.raises(CodecError, match=f"{what} has no durable form") as refused:
        check_durable(program)
    assert "Handle" in str(refused.value)
    assert "test_durability_check.py" in str(refused.value)
