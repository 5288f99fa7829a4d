"""The module of a target: its program, events, channels, plans and strategies.

By convention a module may have `events` (or `items`), `channels` and `plans` beside its program, as
the examples do, so that a program can be tried without any file. A function `strategies` returns
Hypothesis strategies for events, where types are not precise enough:
`{Inc: builds(Inc, amount=integers(0))}`.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType, ModuleType
from typing import Any

from anabranch.errors import AnabranchError, InputError, Location, TargetError
from anabranch.eventtime.channels import Channel
from anabranch.eventtime.disorder import Estimated
from anabranch.model.events import Event, Heartbeat, Item, Malformed
from anabranch.model.program import Program
from anabranch.model.targets import load, load_module
from anabranch.plan.tree import Plan


@dataclass(frozen=True)
class TargetModule:
    """A program with the events, channels and plans of its module."""

    target: str
    program: Program
    module: ModuleType
    items: tuple[Item, ...]
    channels: tuple[Channel, ...]
    plans: Mapping[str, Plan]


def load_program(target: str) -> Program:
    """Return the program of a target; errors of its module are raised with their place."""
    place = target.partition(":")[0]
    if os.getcwd() not in sys.path:
        sys.path.insert(
            0, os.getcwd()
        )  # As `python -m` does: modules in the working directory can be imported.
    try:
        return load(target)
    except AnabranchError:
        raise
    except (Exception, SystemExit) as error:
        raise TargetError(
            f"{place} can't be imported",
            where=_locate_failure(error),
            expected="a module that can be imported and contains a Program",
            got=f"{type(error).__name__}: {error}",
            cure="install it in the environment of this command, or set PYTHONPATH"
            if isinstance(error, ModuleNotFoundError)
            else None,
        ) from error


def load_material(target: str) -> TargetModule:
    """Return the program of a target, with its module's events, channels and plans."""
    program = load_program(target)
    module = load_module(target.partition(":")[0])
    plans = getattr(module, "plans", {})
    named = {
        str(name): replace(plan, name=str(name))
        for name, plan in (plans.items() if isinstance(plans, Mapping) else ())
        if isinstance(plan, Plan)
    }
    channels = tuple(s for s in getattr(module, "channels", ()) if isinstance(s, Channel))
    return TargetModule(target, program, module, _read_events(module), channels, named)


def _read_events(module: ModuleType) -> tuple[Item, ...]:
    found: Any = getattr(module, "events", None)
    if found is None:
        found = getattr(module, "items", None)
    if not isinstance(found, list | tuple):
        return ()
    items = [item for item in found if isinstance(item, Event | Heartbeat | Malformed)]
    if not items:
        return tuple(Event(data, "input", n) for n, data in enumerate(found))
    if len(items) < len(found):
        other = next(item for item in found if not isinstance(item, Event | Heartbeat | Malformed))
        raise InputError(
            "`events` contains a value that is not an event",
            where=getattr(module, "__file__", None),
            expected="Event, Heartbeat and Malformed only, or the program's own event types only",
            got=repr(other),
        )
    return tuple(items)


def load_strategies(target: str) -> dict[Any, Any] | None:
    """Return the strategies of the target's module by event type, or None if it has none."""
    found: Any = getattr(load_module(target.partition(":")[0]), "strategies", None)
    try:
        made = found() if callable(found) else found
    except Exception as error:
        raise InputError(
            "`strategies` failed",
            where=_locate_failure(error),
            expected="a function that returns a Hypothesis strategy for each event type",
            got=f"{type(error).__name__}: {error}",
        ) from error
    return dict(made) if isinstance(made, Mapping) else None


def load_items(
    material: TargetModule, files: tuple[str, ...], after: Mapping[str, int] = MappingProxyType({})
) -> tuple[Item, ...]:
    """Return the events of files, or those beside the program; `after` has the last seq of each channel."""
    if files:
        from anabranch.reference.event_files import check_schemas, read_items

        check_schemas(material.program, files)
        return tuple(read_items(material.program, files, after))
    if not material.items:
        place = material.target.partition(":")[0]
        raise InputError(
            f"{material.program.name} has no input",
            where=place,
            expected="--input FILE, or a list `events` beside the program",
            got="neither",
            cure="--input events.jsonl, one event per line: "
            f'{{"type": "{material.program.inputs[0].__name__}", "time": 1, ...}}',
        )
    return material.items


def declare_channels(
    material: TargetModule,
    items: tuple[Item, ...],
    lateness: int | Estimated | None,
    *,
    unique_times: bool,
    files: tuple[str, ...] = (),
) -> tuple[Channel, ...]:
    """Return the channels of a run: as declared beside the program, or by flags.

    A file without a channel column is a channel with the file's name, and needs no declaration.
    """
    brought = {item.channel for item in items}
    if lateness is not None or unique_times:
        return tuple(
            Channel(name, lateness=lateness or 0, unique_times=unique_times)
            for name in sorted(brought)
        )
    if items is material.items:
        return material.channels
    # A declared channel without events in these files would hold the watermark back for ever, so it is
    # left out. If no declared channel has events, all names are wrong, and the run reports it.
    bringing = tuple(channel for channel in material.channels if channel.name in brought)
    if material.channels:
        known = {channel.name for channel in bringing}
        bringing += tuple(Channel(name) for name in _name_channels(files) & brought - known)
    return bringing or material.channels


def _name_channels(files: tuple[str, ...]) -> set[str]:
    from anabranch.reference.event_files import name_channel
    from anabranch.reference.rows import STANDARD

    return {"input" if file == STANDARD else name_channel(file) for file in files}


def _locate_failure(error: BaseException) -> Location | None:
    if isinstance(error, SyntaxError) and error.filename:
        return Location(error.filename, error.lineno or 0)
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "importlib" not in f.filename and f.filename != __file__]
    own = [f for f in own if not f.filename.startswith(sys.prefix)]
    return Location(own[-1].filename, own[-1].lineno or 0) if own else None
