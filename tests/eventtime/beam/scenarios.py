"""Scenarios: random windowings and logs, as plain data that our machine and Beam's driver both run.

`python -m tests.eventtime.beam.scenarios` writes `scenarios.jsonl` anew with the answers of the
Beam that the environment variable ANABRANCH_BEAM names.
"""

import json
import os
import random
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anabranch.eventtime.windows import triggers, window_types
from anabranch.eventtime.windows.panes import Pane, Windowing
from tests.eventtime.windows.recorded_log import Clock, Elements, End, Watermark, replay

ORACLE = Path(__file__).with_name("oracle.py")
GOLDEN = Path(__file__).with_name("scenarios.jsonl")
GOLDEN_SEED, GOLDEN_SIZE = 2026, 300

Scenario = dict[str, Any]


def make_scenario(rng: random.Random) -> Scenario:
    """Return a random scenario: one in eight is about the clock, one in four as Beam's Python is."""
    scenario = {
        "window": make_window(rng),
        "trigger": make_trigger(rng, 3),
        "accumulation": rng.choice(["discarding", "accumulating"]),
        "lateness": rng.choice([1, 1, 4, 11, 31, 1001]),
        "output_time": rng.choice(["end", "end", "earliest", "latest"]),
        "as": "java",
    }
    kind = rng.randrange(8)
    if kind == 0:
        # Beam reads the clock as if it were a watermark; windows far ahead of it are not misled.
        scenario |= {
            "window": rng.choice([["Tumbling", 10], ["Sliding", 12, 4], ["Global"]]),
            "trigger": make_clock_trigger(rng),
            "output_time": "end",
        }
    elif kind <= 2:
        merging = scenario["window"][0] == "Sessions"
        scenario |= {"trigger": make_plain_trigger(rng, merging=merging), "as": "python"}
    return scenario | {"steps": make_steps(rng, clock=kind == 0)}


def make_window(rng: random.Random) -> list[Any]:
    return rng.choice(
        [
            ["Tumbling", 10],
            ["Tumbling", 7, 3],
            ["Sliding", 10, 5],
            ["Sliding", 10, 4, 1],
            ["Sessions", 6],
            ["Sessions", 6],
            ["Sessions", 12],
            ["Global"],
        ]
    )


def make_trigger(rng: random.Random, depth: int) -> list[Any]:
    """Return any trigger that needs no clock."""
    if depth == 0 or rng.random() < 0.2:
        simple = rng.choice(
            ["DefaultTrigger", "Always", "Never", "AfterCount", "AfterCount", "AfterWatermark"]
        )
        if simple == "AfterWatermark":
            return [simple, None, None]
        return [simple, rng.randint(1, 4)] if simple == "AfterCount" else [simple]
    inner = [make_trigger(rng, depth - 1) for _ in range(rng.randint(1, 3))]
    match rng.randrange(6):
        case 0 | 1:
            early = inner[0] if rng.random() < 0.7 else None
            late = inner[-1] if rng.random() < 0.7 else None
            return ["AfterWatermark", early, late]
        case 2:
            return ["Repeatedly", inner[0]]
        case 3:
            return [rng.choice(["AfterAny", "AfterAll"]), *inner]
        case 4:
            return ["AfterEach", *inner]
    until = rng.choice([["AfterCount", rng.randint(1, 5)], ["AfterWatermark", None, None]])
    return ["OrFinally", inner[0], until]


def make_plain_trigger(rng: random.Random, *, merging: bool) -> list[Any]:
    """Return a trigger for which Beam's driver sets the one alarm that is needed."""
    some = ["AfterCount", rng.randint(1, 4)]
    late = [
        ["AfterWatermark", some, ["AfterCount", rng.randint(1, 4)]],
        ["AfterWatermark", None, ["Always"]],
    ]
    return rng.choice(
        [
            *([] if merging else late),
            ["DefaultTrigger"],
            some,
            ["Always"],
            ["Repeatedly", some],
            ["AfterWatermark", None, None],
            ["AfterWatermark", some, None],
            ["AfterAll", some, ["AfterWatermark", None, None]],
            ["AfterAny", some, ["AfterWatermark", None, None]],
            ["Repeatedly", ["AfterAny", some, ["AfterWatermark", None, None]]],
            ["AfterEach", some, ["AfterCount", rng.randint(1, 4)]],
            ["OrFinally", ["Repeatedly", some], ["AfterCount", rng.randint(1, 6)]],
        ]
    )


def make_clock_trigger(rng: random.Random) -> list[Any]:
    delay = ["AfterProcessingTime", rng.randint(0, 6)]
    some = ["AfterCount", rng.randint(1, 4)]
    return rng.choice(
        [
            delay,
            ["Repeatedly", delay],
            ["AfterEach", delay, some],
            ["AfterWatermark", delay, None],
            ["AfterWatermark", delay, some],
        ]
    )


def make_steps(rng: random.Random, *, clock: bool) -> list[list[Any]]:
    """Return a log in which time goes on unevenly and some events come late."""
    now, watermark, wall, value = 10_000 if clock else 0, 0, 0, 0
    watermark = now - 20
    steps: list[list[Any]] = [["clock", wall]] if clock else []
    for _ in range(rng.randint(4, 14)):
        draw = rng.random()
        if draw < 0.6:
            bundle = []
            for _ in range(rng.choice([1, 1, 1, 2, 3, 5])):
                bundle.append([now + rng.randint(-15, 8), value])
                value += 1
            steps.append(["elements", bundle])
            now += rng.randint(0, 6)
        elif clock and draw < 0.8:
            wall += rng.randint(1, 6)
            steps.append(["clock", wall])
        else:
            watermark = max(watermark, now + rng.randint(-12, 6))
            steps.append(["watermark", watermark])
            now += rng.randint(0, 3)
    if rng.random() < 0.5:
        steps.append(["end", None])
    return steps


def run_here(scenario: Scenario) -> list[list[list[Any]]]:
    """Return what our machine says, in the shape of the oracle's answers."""
    windowing = Windowing(
        window=build(window_types, scenario["window"]),
        trigger=build(triggers, scenario["trigger"]),
        accumulation=scenario["accumulation"],
        allowed_lateness=scenario["lateness"],
        output_time=scenario["output_time"],
        # Beam's driver says nothing when a window is closed.
        closing="never",
        may_lose=True,
    )
    kinds = {"watermark": Watermark, "clock": Clock, "end": lambda _: End()}
    steps = (
        Elements(tuple(map(tuple, told))) if kind == "elements" else kinds[kind](told)
        for kind, told in scenario["steps"]
    )
    return [sorted(map(describe_pane, emitted.panes)) for emitted in replay(windowing, steps)]


def describe_pane(pane: Pane) -> list[Any]:
    whole = pane.window == window_types.ALL_TIME
    return [
        [] if whole else list(pane.window),
        sorted(pane.value),
        [] if whole and pane.time == pane.window.last else [pane.time],
        pane.timing,
        pane.index,
        pane.nonspeculative_index,
        pane.first,
        pane.last,
    ]


def build(module: Any, told: Any) -> Any:
    """Build what is told as a list: a name and its arguments, or None."""
    if not isinstance(told, list):
        return told
    name, *arguments = told[0], *(build(module, part) for part in told[1:])
    required = {"Tumbling": 1, "Sliding": 2}.get(name, len(arguments))
    if len(arguments) > required:  # The last is the offset of a window.
        return getattr(module, name)(*arguments[:-1], offset=arguments[-1])
    return getattr(module, name)(*arguments)


def ask_beam(python: str, scenarios: Iterable[Scenario]) -> list[Any]:
    """Return the answers of a Beam in its own environment."""
    lines = "".join(json.dumps(scenario) + "\n" for scenario in scenarios)
    run = subprocess.run(
        [python, str(ORACLE)], input=lines, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-2000:]
    return [json.loads(line) for line in run.stdout.splitlines()]


def compare(scenario: Scenario, beam: Any) -> str | None:
    """Return where an answer of Beam's differs from ours, or None."""
    ours = run_here(scenario)
    if "AfterProcessingTime" in json.dumps(scenario["trigger"]):
        # Beam judges whether such a pane is early by the clock, not by the watermark.
        ours, beam = ([[[*pane[:3], pane[4], *pane[6:]] for pane in step] for step in steps]
                      for steps in (ours, beam))  # fmt: skip
    for place, (step, mine, theirs) in enumerate(zip(scenario["steps"], ours, beam, strict=True)):
        if mine != theirs:
            return f"step {place} {step}:\n  ours {mine}\n  Beam {theirs}"
    return None


def write_golden(python: str) -> None:
    """Keep some scenarios with Beam's answers, for machines without Beam."""
    rng = random.Random(GOLDEN_SEED)
    scenarios = [make_scenario(rng) for _ in range(GOLDEN_SIZE)]
    answers = ask_beam(python, scenarios)
    with GOLDEN.open("w", encoding="utf-8") as file:
        for scenario, answer in zip(scenarios, answers, strict=True):
            file.write(json.dumps(scenario | {"beam": answer}, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    write_golden(os.environ["ANABRANCH_BEAM"])
