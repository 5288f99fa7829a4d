"""Stories: a windowing, a log of steps, and what must have been said after each.

A story is a YAML document. Its steps are `elements` (a bundle; a number is both time and value, a
pair is time and value), `watermark`, `clock`, `end`, and three that look back: `expect` (all panes
since the last step, in any order, each by the fields it names), `dropped` (all that was dropped),
and `state` (which windows the key keeps). A time may be written as a date with its shift from UTC.

Windows and triggers are written as in Python and read by a small parser; nothing is evaluated.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from anabranch.eventtime.windows import calendar_windows, triggers, window_types
from anabranch.eventtime.windows.panes import Fold, Pane, StepOutcome, Windowing, WindowState
from anabranch.state import Count, Max, Sum
from tests.eventtime.windows.recorded_log import Clock, Elements, End, Step, Watermark, replay

FOLDER = Path(__file__).parent

NAMES: dict[str, Callable[..., Any]] = {
    name: getattr(module, name)
    for module, names in (
        (window_types, "Tumbling Sliding Sessions Global CountTumbling CountSliding"),
        (calendar_windows, "Calendar"),
        (
            triggers,
            "DefaultTrigger Always Never AfterCount AfterProcessingTime AfterWatermark Repeatedly",
        ),
        (triggers, "AfterAny AfterAll AfterEach OrFinally"),
    )
    for name in names.split()
} | {
    "Sum": Sum,
    "Max": Max,
    "Count": lambda: Fold(0, lambda n, value: n + 1, Count().join),
    # A user's function that gives windows of ten, for stories of windows by function.
    "ByFunction": lambda: window_types.Custom(
        lambda time, _: [(time // 10 * 10, time // 10 * 10 + 10)]
    ),
}


class StoryError(AssertionError):
    """A story does not say what happened."""


def read_stories(*files: Path) -> Iterator[dict[str, Any]]:
    """Yield the stories of some files, or all stories of windows beside this one."""
    for file in files or sorted(FOLDER.glob("*.yaml")):
        if files or file.name != "watermarks.yaml":  # Its stories are of sources; see promises.py.
            yield from yaml.safe_load_all(file.read_text(encoding="utf-8"))


def read_expression(text: str, names: dict[str, Callable[..., Any]] = NAMES) -> Any:
    """Read what is written as a call of known names with numbers and texts; evaluate nothing."""

    def read(node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | str() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                return -value
            case ast.Name(id=name) if name in names:
                return names[name]()
            case ast.Call(func=ast.Name(id=name)) if name in names:
                named = {word.arg: read(word.value) for word in node.keywords if word.arg}
                return names[name](*map(read, node.args), **named)
        raise StoryError(f"{ast.unparse(node)!r} is not known; known are {', '.join(names)}")

    return read(ast.parse(text, mode="eval").body)


def read_windowing(story: dict[str, Any]) -> Windowing:
    """Return the windowing that a story is about."""
    options = {
        name: story[name]
        for name in (
            "accumulation",
            "allowed_lateness",
            "output_time",
            "closing",
            "may_lose",
            "share",
        )
        if name in story
    }
    for name in ("trigger", "fold"):
        if name in story:
            options[name] = read_expression(story[name])
    return Windowing(window=read_expression(story["window"]), **options)


def read_log(story: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return what happens in a story, without what must have been said."""
    steps = [next(iter(step.items())) for step in story["steps"]]
    return [(kind, told) for kind, told in steps if kind not in ("expect", "dropped", "state")]


def check_story(story: dict[str, Any], answers: Iterable[StepOutcome] | None = None) -> None:
    """Raise a StoryError where a story does not say what happened.

    `answers` are what each step came to, wherever it was run; without them, the machine is asked.
    """
    if answers is None:
        answers = replay(read_windowing(story), [read_step(*step) for step in read_log(story)])
    answers = iter(answers)
    emitted = StepOutcome(WindowState())
    for step in story["steps"]:
        ((kind, told),) = step.items()
        if kind == "state":
            _check_state(emitted.state, told)
        elif kind == "expect":
            panes = list(emitted.panes)
            for wanted in told:
                _strike_out("pane", wanted, panes, _describe_pane)
            emitted = _check_over(emitted._replace(panes=tuple(panes)), kind="expect")
        elif kind == "dropped":
            lost = list(emitted.dropped)
            for wanted in told:
                _strike_out("dropped", wanted, lost, _describe_dropped)
            emitted = emitted._replace(dropped=tuple(lost))
        else:
            _check_over(emitted, kind)
            emitted = next(answers)
    _check_over(emitted, "the end of the story")


def read_step(kind: str, told: Any) -> Step:
    """Return a step of a story as a step of a log."""
    match kind:
        case "elements":
            pairs = (one if isinstance(one, list) else (one, one) for one in told)
            return Elements(tuple((read_time(time), read_time(value)) for time, value in pairs))
        case "watermark":
            return Watermark(read_time(told))
        case "clock":
            return Clock(read_time(told))
        case "end":
            return End()
    raise StoryError(f"{kind!r} is no step of a story")


def read_time(told: Any) -> Any:
    """Read a number, or a date with its shift from UTC as seconds from 1970."""
    if isinstance(told, str):
        return round(datetime.fromisoformat(told).timestamp())
    return told


def _check_over(emitted: StepOutcome, kind: str) -> StepOutcome:
    if emitted.panes:
        raise StoryError(f"Unexpected pane before {kind}: {_describe_pane(emitted.panes[0])}")
    if emitted.dropped and kind != "expect":
        raise StoryError(f"Unexpected drop before {kind}: {_describe_dropped(emitted.dropped[0])}")
    return emitted


def _strike_out(
    what: str, wanted: dict[str, Any], left: list[Any], describe: Callable[[Any], dict[str, Any]]
) -> None:
    asked = {name: _read_wanted(name, value) for name, value in wanted.items()}
    for place, one in enumerate(left):
        shown = describe(one)
        if unknown := asked.keys() - shown.keys():
            raise StoryError(f"A {what} has no {', '.join(unknown)}")
        if all(shown[name] == value for name, value in asked.items()):
            del left[place]
            return
    raise StoryError(f"Unmatched {what}: {wanted} is not in {list(map(describe, left))}")


def _read_wanted(name: str, value: Any) -> Any:
    if name == "window":
        return list(map(read_time, value))
    if name == "values":
        return sorted(map(read_time, value))
    return read_time(value) if name == "time" else value


def _describe_pane(pane: Pane) -> dict[str, Any]:
    shown = pane._asdict() | {"window": list(pane.window)}
    if isinstance(pane.value, tuple):
        shown["values"] = sorted(pane.value)
    return shown


def _describe_dropped(dropped: Any) -> dict[str, Any]:
    return dropped._asdict() | {"window": list(dropped.window)}


def _check_state(state: WindowState, told: dict[str, Any]) -> None:
    kept = {tuple(held.window): held for held in state.windows}
    found = {
        "present": [list(window) for window, held in kept.items() if not held.finished],
        "finished": [list(window) for window, held in kept.items() if held.finished],
    }
    for kind in ("present", "finished"):
        if kind in told and found[kind] != told[kind]:
            raise StoryError(f"State is not as told: {kind} are {found[kind]}, not {told[kind]}")
    for window in told.get("absent", ()):
        if tuple(window) in kept:
            raise StoryError(f"State is not as told: {window} is still kept")
