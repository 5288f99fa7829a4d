"""Every published vector, on every valid hand-written plan, under many random schedules."""

import pytest

from anabranch.reference.verification import prepare
from tests.vectors.flumina import VECTORS

SCHEDULES = 1000
CASES = [
    pytest.param(vector, plan, id=f"{name}/{plan}")
    for name, vector in VECTORS.items()
    if not vector.large
    for plan in vector.plans
]


@pytest.mark.parametrize(("vector", "plan"), CASES)
def test_every_schedule_gives_the_published_answer(vector, plan):
    trial = prepare(vector.program, vector.plans[plan], vector.items, vector.sources)
    assert trial.answer.values == vector.expected
    for seed in range(SCHEDULES):
        _, mismatch = trial.verify(seed)
        assert mismatch is None, f"replay with seed {seed}: {mismatch}"
