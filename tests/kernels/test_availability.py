"""Without a compiler every fold is interpreted, with the same result."""

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

from anabranch import Event, Program, depends, on
from anabranch.errors import MissingExtraError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.eventtime.windows.window_types import Sliding
from anabranch.kernels.kernel import explain_kernel, make_kernel
from anabranch.query import aggregate
from anabranch.state import Count, MapOf, Min, Sum
from tests.microbatch.test_microbatches import Engine, to_row


class Tick(NamedTuple):
    time: int
    k: int
    v: int


total = Program(
    on(Tick, update=lambda s, e: s + e.v, output=lambda s, e: s),
    depends(Tick, Tick, same="k"),
    state=MapOf(Sum(), by="k"),
)
least = aggregate(Tick, Sliding(6, every=2), per="k", n=Count(), low=(Min(), "v"))
CHANNELS = (Channel("a"),)
ITEMS = end_channels(
    [Event(Tick(n, n % 3, 7 * n % 5), "a", n) for n in range(30)], channels=CHANNELS
)


def list_values():
    found = []
    for program in (total, least):
        engine = Engine(program, CHANNELS, 2, columns=True)
        assert engine.columns is not None
        engine.batch([[to_row(item) for item in ITEMS]])
        found.append(sorted((row.id, row.value) for row in engine.emitted))
    return found


def test_functions_that_numba_leaves_alone_are_interpreted():
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from tests.kernels.test_availability import *; print(list_values())",
        ],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout == f"{list_values()}\n"


def test_the_reason_is_given_where_nothing_is_compiled(monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert [verdict.reason for verdict in explain_kernel(total)] == ["NUMBA_DISABLE_JIT is set"]
    with pytest.raises(MissingExtraError, match="NUMBA_DISABLE_JIT is set"):
        make_kernel(total.initial, "compiled")
