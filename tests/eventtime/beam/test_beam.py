"""The machine against Beam's own trigger driver: its answers, kept or asked for, and its stories.

Two implementations that share nothing but the meaning of the words must say the same panes. Where
they are meant to differ, docs/decisions/triggers.md says so.
"""

import json
import os
import random
import subprocess
from typing import Any

import pytest
import yaml

from tests.eventtime.beam.scenarios import GOLDEN, GOLDEN_SIZE, ask_beam, compare, make_scenario
from tests.transcripts.stories import StoryError, check_story

BEAM = os.environ.get("ANABRANCH_BEAM", "")
needs_beam = pytest.mark.skipif(not BEAM, reason="ANABRANCH_BEAM names no Python with apache-beam")

ASKED = int(os.environ.get("ANABRANCH_BEAM_SCENARIOS", "2000"))
FIND_TRANSCRIPTS = (
    "import apache_beam, pathlib;"
    "print(pathlib.Path(apache_beam.__file__).parent / 'testing/data/trigger_transcripts.yaml')"
)
WORDS = {
    "CustomTimestampingFixedWindowsWindowFn(10)": "ByFunction",
    "FixedWindows": "Tumbling",
    "AfterWatermark": "AfterWatermark",
    "GlobalWindows": "Global",
}


def report(differences: list[tuple[dict[str, Any], str]]) -> str:
    scenario, difference = min(differences, key=lambda found: len(json.dumps(found[0])))
    return f"{len(differences)} differ; the smallest:\n{json.dumps(scenario)}\n{difference}"


def test_the_machine_says_what_beam_said():
    kept = [json.loads(line) for line in GOLDEN.read_text(encoding="utf-8").splitlines()]
    assert len(kept) == GOLDEN_SIZE
    found = [(scenario, compare(scenario, scenario["beam"])) for scenario in kept]
    differences = [(scenario, difference) for scenario, difference in found if difference]
    assert not differences, report(differences)


def test_a_wrong_answer_is_noticed():
    # The comparison itself must be able to fail: change one field of one pane.
    for line in GOLDEN.read_text(encoding="utf-8").splitlines():
        scenario = json.loads(line)
        emitted = next((step for step in scenario["beam"] if step), None)
        if emitted is not None:
            emitted[0][4] += 1
            assert compare(scenario, scenario["beam"]) is not None


@needs_beam
def test_the_machine_says_what_beam_says():
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    scenarios = [make_scenario(rng) for _ in range(ASKED)]
    found = [(s, compare(s, a)) for s, a in zip(scenarios, ask_beam(BEAM, scenarios), strict=True)]
    differences = [(scenario, difference) for scenario, difference in found if difference]
    assert not differences, f"seed {seed}: {report(differences)}"


def translate_story(beam: dict[str, Any]) -> dict[str, Any]:
    """Return a story of Beam's in our words: a watermark is one more than a watermark."""

    def translate(text: str) -> str:
        for theirs, ours in WORDS.items():
            text = text.replace(theirs, ours)
        return text

    steps: list[dict[str, Any]] = []
    for step in beam["transcript"]:
        ((kind, told),) = step.items()
        if kind == "input":
            steps.append({"elements": told})
        elif kind == "watermark":
            steps.append({"watermark": told - 1})
        elif kind == "expect":
            steps.append({"expect": list(map(translate_pane, told))})
    return {
        # One story of a lie spells `window_fn` otherwise; Beam then takes its default.
        "window": translate(beam.get("window_fn", "GlobalWindows")),
        "trigger": translate(beam.get("trigger_fn", "DefaultTrigger")),
        "accumulation": beam.get("accumulation_mode", "accumulating"),
        "allowed_lateness": beam.get("allowed_lateness", 0),
        "output_time": beam.get("timestamp_combiner", "OUTPUT_AT_EOW")
        .removeprefix("OUTPUT_AT_")
        .lower()
        .replace("eow", "end"),
        "may_lose": True,
        "steps": steps,
    }


def translate_pane(pane: dict[str, Any]) -> dict[str, Any]:
    wanted = {k: v for k, v in pane.items() if k in ("values", "index", "nonspeculative_index")}
    if "window" in pane:
        wanted["window"] = [pane["window"][0], pane["window"][1] + 1]
    if "timestamp" in pane:
        wanted["time"] = pane["timestamp"]
    if "final" in pane:
        wanted["last"] = pane["final"]
    timings = {name for name in ("early", "late") if pane.get(name)}
    if timings:
        wanted["timing"] = timings.pop()
    return wanted


@needs_beam
def test_beams_stories_hold_and_its_untrue_ones_are_rejected():
    asked = subprocess.run(
        [BEAM, "-c", FIND_TRANSCRIPTS], capture_output=True, text=True, check=True
    )
    with open(asked.stdout.strip(), encoding="utf-8") as file:
        stories = list(yaml.safe_load_all(file))
    told = {"true": 0, "untrue": 0}
    for story in stories:
        if story.get("timestamp_combiner") == "OUTPUT_AT_EARLIEST_TRANSFORMED":
            continue  # We have no such output time.
        ours = translate_story(story)
        if "error" in story:
            with pytest.raises(StoryError):
                check_story(ours)
            told["untrue"] += 1
        else:
            if story["name"].startswith("fixed_drop"):
                ours["steps"] = note_drops(ours["steps"])
            check_story(ours)
            told["true"] += 1
    assert told == {"true": 12, "untrue": 5}


def note_drops(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Beam's story drops two bundles without a word; ours must report them."""
    noted = []
    for step in steps:
        noted.append(step)
        if step in ({"elements": [7, 8]}, {"elements": [17, 18]}):
            noted.append({"dropped": [{"value": value} for value in step["elements"]]})
    return noted
