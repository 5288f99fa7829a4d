"""The verdict on a run: the reasons of rejected events, and whether the run has failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from rich.text import Text

from anabranch.cli.terminal.json_failures import describe_failure
from anabranch.cli.terminal.screen import FOUND, GOOD, Screen, count_things
from anabranch.errors import RejectionError
from anabranch.eventtime.channels import Rejected
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.tolerance import (
    Sample,
    Tolerance,
    count_reasons,
    describe_reasons,
    explain_excess,
    explain_raising,
    find_raising,
)
from anabranch.model.events import Event, Item
from anabranch.model.failures import was_raised
from anabranch.reference.event_files import encode_item
from anabranch.reference.sequential import Answer
from anabranch.speculation.output_changes import Amount, Mode

MOST_REASONS = 5
"""Number of kinds of reasons that are printed."""


class RunVerdict(NamedTuple):
    """The facts that decide whether a run has failed: ledger, limit, and samples of rejected events."""

    ledger: Ledger
    tolerance: Tolerance | None
    samples: list[Sample]
    where: str
    place: str
    raising: Mapping[str, int] = MappingProxyType({})


def conclude(screen: Screen, verdict: RunVerdict, document: dict[str, Any] | None) -> int:
    """Print the document, and warn of rejected events; raise `RejectionError` if they are too many."""
    failure = _find_failure(verdict)
    if failure is not None:
        if document is None:
            raise failure
        screen.print_json({**document, **describe_failure(failure, FOUND)})
        screen.err.print(Text(str(failure)), soft_wrap=True)
        return FOUND
    if document is not None:
        screen.print_json(document)
    ledger = verdict.ledger
    if ledger.rejected:
        text = f"warning: {count_things(ledger.rejected, 'event')} of {ledger.input:,} rejected"
        screen.err.print(Text(f"{text}; --most-rejected sets a limit", style="yellow"))
    return GOOD


def _find_failure(verdict: RunVerdict) -> RejectionError | None:
    """Return the error of a failed run, or None. If a limit was given, only the limit decides."""
    ledger, tolerance, samples, where, place, raising = verdict
    if tolerance is not None:
        if tolerance.is_exceeded(ledger, ended=True):
            return explain_excess(ledger, tolerance, samples, where, place)
        return None
    if not raising:
        if not ledger.rejected or ledger.rejected < ledger.input:
            return None
        return RejectionError(
            f"every event is rejected: {ledger.rejected:,} of {ledger.input:,}",
            where=where,
            expected="events that fit the program",
            got="\n".join(describe_reasons(samples)),
            cure=f"correct the input or the event types; all rejected events: {place}; "
            "--most-rejected 100% lets such a run pass",
        )
    cure = f"correct the function: anabranch check {where} prints the smallest case; "
    cure += "--most-rejected 100% lets such a run pass"
    return explain_raising(raising, samples, where, cure)


def make_sample(entry: Rejected) -> Sample:
    """Return a rejected event as a sample of its reason."""
    item = entry.item
    event_type = item.event_type.__name__ if isinstance(item, Event) else None
    return Sample(entry.reason, str(encode_item(item)), event_type=event_type)


def find_raising_event_types(answer: Answer, items: Iterable[Item]) -> dict[str, int]:
    """Return the event types of which no event was processed because functions raised."""
    raised = Counter(
        sample.event_type
        for sample in map(make_sample, answer.rejected)
        if sample.event_type is not None and was_raised(sample.reason, sample.event_type)
    )
    brought = Counter(item.event_type.__name__ for item in items if isinstance(item, Event))
    others = (late.event for late in answer.late)
    refused = (entry.item for entry in answer.rejected)
    for item in (*others, *refused, *answer.pending):
        if isinstance(item, Event):
            brought[item.event_type.__name__] -= 1
    # Timers arrive in no channel, so the number of processed ones is unknown.
    return find_raising(
        {event_type: n for event_type, n in raised.items() if event_type in brought}, brought
    )


def show_reasons(screen: Screen, samples: Iterable[Sample]) -> None:
    """Print the most frequent reasons for which events were rejected."""
    counted = count_reasons(samples)
    for one in counted[:MOST_REASONS]:
        often = f"{one.times:,} times: " if one.times > 1 else ""
        screen.write(f"rejected  {often}{one.reason}")
    if len(counted) > MOST_REASONS:
        rest = sum(one.times for one in counted[MOST_REASONS:])
        kinds = count_things(len(counted) - MOST_REASONS, "reason")
        screen.write(f"          … and {rest:,} more rejected, for {kinds} more")


def describe_samples(samples: Iterable[Sample]) -> list[dict[str, Any]]:
    """Return the kinds of reasons as JSON: an example of each, its event type, and its count."""
    return [{"reason": one.reason, "type": one.event_type, "count": one.times} for one in samples]


def describe_amount(amount: Amount, mode: Mode) -> dict[str, Any]:
    """Return the counts of emitted and still valid outputs of a speculative run; none for a settled run."""
    if mode == "settled":
        return {}
    return {"amount": {**amount._asdict(), "ratio": round(amount.ratio, 4)}}
