"""`anabranch watermark`: the watermark of each channel, and which channel holds the others back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from anabranch.cli.flags import Inputs, Json, Lateness, Strict
from anabranch.cli.target_module import declare_channels, load_items, load_material
from anabranch.cli.terminal.screen import GOOD, Screen, count_things
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, Late, Rejected, Watch, check_units, read_channels
from anabranch.eventtime.disorder import find_percentile, list_distances, read_lateness
from anabranch.eventtime.held_back import (
    ChannelStatus,
    describe_joining,
    describe_rule,
    explain_hold,
    find_holders,
    measure_hold,
    name_share,
    name_span,
    name_time,
)
from anabranch.model.events import FOREVER, Event, EventType, Item
from anabranch.model.values.durations import Duration
from anabranch.model.values.event_times import is_timestamped

CONFIDENCES = (0.9, 0.99, 0.999, 1.0)
"""The shares of events for which --suggest computes a lateness."""

PLACE = "Program, as for `run`; or the output folder of a run on Spark, or its checkpoint."


@dataclass(frozen=True)
class ChannelOverview:
    """The watermarks of a program's channels.

    `late` and `pending` are counts of events; `batch` is the last published batch, and `since` has the
    batch in which each channel's watermark moved last.
    """

    statuses: dict[str, ChannelStatus]
    program: int
    pending: int
    late: dict[str, int]
    batch: int | None = None
    since: dict[str, int] | None = None

    @property
    def holders(self) -> list[str]:
        """Return the channels that hold back the watermark, if other channels or events wait for it."""
        slow = find_holders(self.program, self.statuses)
        ahead = any(status.watermark > self.program for status in self.statuses.values())
        return slow if ahead or self.pending else []


def watermark(
    target: Annotated[str, Parameter(help=PLACE)],
    /,
    *,
    input: Inputs = (),  # noqa: A002 - the flag's name
    lateness: Lateness = None,
    unique_times: Strict = False,
    suggest: Annotated[
        bool,
        Parameter(help="Show for each channel how many events each lateness would have lost."),
    ] = False,
    json: Json = False,
) -> int:
    """Show the watermark of each channel, and which channel holds the others back.

    The input counts as not ended. --input may be a folder.
    """
    screen = Screen(quiet=json)
    if Path(target).is_dir():
        _refuse_flags(
            target, input=input, lateness=lateness, unique_times=unique_times, suggest=suggest
        )
        _show(screen, read_published(Path(target)), json=json)
        return GOOD
    material = load_material(target)
    items = load_items(material, input)
    delay = None if lateness is None else read_lateness(lateness)
    declared = declare_channels(material, items, delay, unique_times=unique_times, files=input)
    known, brought, _ = read_channels(items, declared)
    check_units(material.program, known.values())
    if suggest:
        _suggest(screen, known, brought, material.program.inputs, json=json)
    else:
        overview = survey(known, brought, material.program.inputs)
        _show(screen, overview, json=json, moments=material.program.timestamped)
    return GOOD


def _refuse_flags(target: str, **flags: Any) -> None:
    for name, value in flags.items():
        if value:
            raise InputError(
                f"--{name} applies to a program and its input",
                expected=f"anabranch watermark PROGRAM --{name} …",
                got=f"{target!r}, a folder",
                cure="give the folder alone; its watermarks are those that the run has published",
            )


def survey(
    channels: dict[str, Channel], brought: dict[str, list[Item]], event_types: Iterable[EventType]
) -> ChannelOverview:
    """Read the items of every channel, and return the watermarks."""
    event_types = tuple(event_types)
    statuses: dict[str, ChannelStatus] = {}
    late: dict[str, int] = {}
    good: list[Event] = []
    for name in sorted(brought):
        watch = Watch(channels[name])
        verdicts = [watch.see(item, event_types) for item in brought[name]]
        good += [verdict for verdict in verdicts if isinstance(verdict, Event)]
        late[name] = sum(isinstance(verdict, Late) for verdict in verdicts)
        rule = describe_rule(channels[name])
        statuses[name] = ChannelStatus(
            watch.watermark, watch.largest, watch.last, rule, watch.delay
        )
    program = min((status.watermark for status in statuses.values()), default=FOREVER)
    return ChannelOverview(statuses, program, sum(event.time > program for event in good), late)


def read_published(folder: Path) -> ChannelOverview:
    """Return the watermarks that a run on Spark has published with its last batch."""
    from anabranch.microbatch.runs.published_batches import (
        find_last_batch,
        read_ledger,
        read_watermarks,
    )

    # A checkpoint is in its output folder, unless the user chose another place.
    begun = (folder / "offsets").is_dir()
    place = folder.absolute().parent if begun else folder
    last = find_last_batch(place)
    if last is None:
        raise InputError(
            f"{str(folder)!r} is a checkpoint without its output folder"
            if begun
            else f"{str(folder)!r} has no batches of a run",
            expected="the folder of `anabranch run --output`, or of `write_directory`, with batch=0, …",
            got="a checkpoint outside its output folder" if begun else "a folder without them",
            cure="give the output folder of the run",
        )
    watermarks = read_watermarks(last)
    number = int(last.name.partition("=")[2])
    pending = read_ledger(last).pending
    return ChannelOverview(
        watermarks.statuses, watermarks.program, pending, {}, number, watermarks.since
    )


def _show(screen: Screen, overview: ChannelOverview, *, json: bool, moments: bool = False) -> None:
    if json:
        screen.print_json(_describe(overview))
        return
    holders = overview.holders
    rows = [
        (
            name,
            "–" if status.largest is None else name_time(status.largest, moments=moments),
            name_time(status.watermark, moments=moments),
            status.rule,
            "–" if status.delay is None else name_span(status.delay, moments=moments),
            _count(overview, name),
            _remark(overview, name, holders),
        )
        for name, status in sorted(overview.statuses.items(), key=lambda entry: entry[1].watermark)
    ]
    count = ">late" if overview.batch is None else ">moved in"
    screen.show_table(
        ("channel", ">last time", ">watermark", "promised by", ">delay", count, ""), rows
    )
    screen.write("")
    screen.write(_sum_up(overview, holders, moments=moments))


def _count(overview: ChannelOverview, name: str) -> str:
    if overview.batch is None:
        return f"{overview.late[name]:,}"
    moved = (overview.since or {}).get(name)
    return "–" if moved is None else f"batch {moved}"


def _remark(overview: ChannelOverview, name: str, holders: list[str]) -> str:
    status = overview.statuses[name]
    remarks = [describe_joining(status)]
    if status.idle:
        remarks.insert(0, f"idle: no events for {status.silence_ms / 1000:g} s, not waited for")
    elif name in holders:
        why = explain_hold(status, overview.batch)
        remarks.insert(0, f"holds back: {why}" if why != status.rule else "holds back")
    return "; ".join(filter(None, remarks))


def _sum_up(overview: ChannelOverview, holders: list[str], *, moments: bool) -> str:
    """Return a sentence with the watermark and the channels that hold it back."""
    text = f"watermark {name_time(overview.program, moments=moments)}"
    if overview.batch is not None:
        text += f" after batch {overview.batch}"
    waiting = (
        f"{count_things(overview.pending, 'event')} {'waits' if overview.pending == 1 else 'wait'}"
    )
    if not holders:
        return f"{text}; nothing holds it back"
    gap = measure_hold(overview.statuses, holders)
    by = (
        f", {name_span(gap, moments=moments)} behind the next"
        if gap is not None and gap > 0
        else ""
    )
    return f"{text}, held back by {', '.join(holders)}{by}; {waiting}"


def _describe(overview: ChannelOverview) -> dict[str, Any]:
    holders = overview.holders
    return {
        "watermark": name_time(overview.program),
        "batch": overview.batch,
        "pending": overview.pending,
        "held_back_by": {
            name: explain_hold(overview.statuses[name], overview.batch) for name in holders
        },
        "by": measure_hold(overview.statuses, holders),
        "channels": {
            name: {
                "watermark": name_time(status.watermark),
                **status.describe(),
                "late": overview.late.get(name),
                "moved": (overview.since or {}).get(name),
            }
            for name, status in sorted(overview.statuses.items())
        },
    }


@dataclass(frozen=True)
class Suggestion:
    """A lateness for a channel: the delay, and the number of events that would have been late."""

    channel: str
    confidence: float
    delay: int
    late: int
    events: int


def suggest_lateness(
    channel: Channel, items: Iterable[Item], event_types: Iterable[EventType]
) -> list[Suggestion]:
    """Return for each confidence the least lateness that covers this share of the channel's events."""
    event_types = tuple(event_types)
    # Leave out rejected events only; events that are late now are part of the estimate.
    watch = Watch(Channel(channel.name, lateness=None, max_ahead=channel.max_ahead))
    events = [item for item in items if isinstance(item, Event)]
    usable = [e for e in events if not isinstance(watch.see(e, event_types), Rejected)]
    distances = list_distances(event.time for event in usable)
    suggestions = []
    for confidence in CONFIDENCES if distances else ():
        delay = find_percentile(distances, Fraction(repr(confidence)))
        delay = Duration(delay) if any(map(is_timestamped, event_types)) else delay
        late = sum(distance > delay for distance in distances)
        suggestions.append(Suggestion(channel.name, confidence, delay, late, len(distances)))
    return suggestions


def _shorten(suggestions: list[Suggestion]) -> list[Suggestion]:
    """Return one suggestion if all confidences have the same delay, as for channels in order."""
    alike = len({suggestion.delay for suggestion in suggestions}) == 1
    return suggestions[-1:] if alike else suggestions


def _suggest(
    screen: Screen,
    channels: dict[str, Channel],
    brought: dict[str, list[Item]],
    event_types: Iterable[EventType],
    *,
    json: bool,
) -> None:
    found = {
        name: suggest_lateness(channels[name], brought[name], event_types)
        for name in sorted(brought)
    }
    if json:
        document = {name: [vars(s) for s in suggestions] for name, suggestions in found.items()}
        screen.print_json(document)
        return
    rows = [
        (
            s.channel if place == 0 else "",
            name_share(s.confidence),
            str(s.delay),
            f"{s.late:,} of {s.events:,}" if place == 0 else f"{s.late:,}",
        )
        for suggestions in found.values()
        for place, s in enumerate(_shorten(suggestions))
    ]
    screen.show_table(("channel", ">of events", ">lateness", ">would be late"), rows)
    screen.write("")
    screen.write(
        "An output waits as long as the lateness. Declare it, Channel(name, lateness=n), or let the run\n"
        "estimate it: lateness=Estimated(0.99), --lateness 99%."
    )
