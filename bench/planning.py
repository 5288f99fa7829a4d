"""How fast is planning of 1,000 loads, compared with the sequential plan?

A load is an event type of one channel or key (Flumina's implementation tag). Rates are in loads per second, so
1,000 loads in less than a second are a rate above 1,000. Two programs are planned: values of 999 channels below
a barrier, and 250 keys that three channels count and one reads. The validity check of the greedy plan is timed
too: it compares every pair of slices that run in parallel, and users wait for it as well.
"""

from collections.abc import Callable
from time import perf_counter

from anabranch import Program, take
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates
from anabranch.plan.validity import check_plan
from examples.key_counter import Inc, Read, key_counter
from examples.value_barrier import Barrier, Value, value_barrier

ROUNDS = 3
ORDER = ("sequential", "keyed", "greedy", "hybrid", "best")

CHANNELS = Rates(
    [
        Load(take(Barrier), 1),
        *(Load(take(Value, channel=f"s{n}"), 100 + n, f"m{n % 10}") for n in range(999)),
    ]
)
KEYS = Rates(
    [
        *(Load(take(Read, key=key), 1 + key % 3, "reads") for key in range(250)),
        *(Load(take(Inc, key=key, channel=s), 99 + key, s) for key in range(250) for s in "abc"),
    ]
)
PROGRAMS: dict[str, tuple[Program, Rates]] = {
    "999 channels": (value_barrier, CHANNELS),
    "250 keys": (key_counter, KEYS),
}


def time_once(work: Callable[[], object]) -> float:
    """Return the best of a few rounds, in seconds."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = perf_counter()
        work()
        best = min(best, perf_counter() - start)
    return best


def measure() -> dict[str, float]:
    """Return the rates of planning both programs with every optimizer; check that every plan is valid."""
    rates: dict[str, float] = {}
    for name, (program, arriving) in PROGRAMS.items():
        count = len(arriving.loads)
        for how in ORDER:
            optimize = OPTIMIZERS[how]
            check_plan(program, optimize(program, arriving, ()))
            seconds = time_once(lambda: optimize(program, arriving, ()))  # noqa: B023 - runs now
            rates[f"{name}, {how}"] = count / seconds
        greedy = OPTIMIZERS["greedy"](program, arriving, ())
        seconds = time_once(lambda: check_plan(program, greedy))  # noqa: B023 - runs now
        rates[f"{name}, validity"] = count / seconds
    return rates
