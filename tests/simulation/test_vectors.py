"""Every published vector, on every valid hand-written plan, under many random schedules."""

import pytest

from anabranch.reference.verification import prepare
from tests.vectors.flumina import VECTORS

SCHEDULES = 1000


def cut_schedules(vector):
    """Cut the schedules of a long vector into parts, so that they can run side by side."""
    size = SCHEDULES if len(vector.items) < 500 else SCHEDULES // 4
    return [range(start, start + size) for start in range(0, SCHEDULES, size)]


CASES = [
    pytest.param(vector, plan, seeds, id=f"{name}/{plan}/{seeds.start}")
    for name, vector in VECTORS.items()
    if not vector.large
    for plan in vector.plans
    for seeds in cut_schedules(vector)
]


@pytest.mark.parametrize(("vector", "plan", "seeds"), CASES)
def test_every_schedule_gives_the_published_answer(vector, plan, seeds):
    trial = prepare(vector.program, vector.plans[plan], vector.items, vector.sources)
    assert trial.answer.values == vector.expected
    for seed in seeds:
        _, mismatch = trial.verify(seed)
        assert mismatch is None, f"replay with seed {seed}: {mismatch}"
