"""What a machine's program means, with a dict of dicts and a list; nothing of the library's is asked."""

import copy
import operator
from dataclasses import dataclass, field
from typing import Any

from anabranch import Event, Heartbeat
from tests.state.machine.operations import OPERATIONS
from tests.state.machine.programs import ALARM, START, Spec

NEVER, FOREVER = -(1 << 63), (1 << 63) - 1
WHOLE = None
"""The key of a state that has no keys."""


@dataclass
class Model:
    """The state, what waits, and the account of everything that came."""

    spec: Spec
    lateness: dict[str, int | None]
    entries: dict[Any, dict[str, Any]] = field(default_factory=dict)
    common: int = START
    pending: list[Event] = field(default_factory=list)
    watermarks: dict[str, int] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    late: list[tuple[str, int]] = field(default_factory=list)
    emitted: list[Any] = field(default_factory=list)
    came: int = 0
    processed: int = 0
    rejected: int = 0

    def __post_init__(self) -> None:
        self.watermarks = dict.fromkeys(self.lateness, NEVER)
        if self.spec.form == "whole":
            self.entries[WHOLE] = self.make_entry()

    @property
    def watermark(self) -> int:
        return min(self.watermarks.values())

    @property
    def ledger(self) -> tuple[int, ...]:
        return (
            self.came, self.processed, len(self.late), self.rejected, 0, len(self.pending)
        )  # fmt: skip

    def copy(self) -> "Model":
        return copy.deepcopy(self, {id(self.spec): self.spec})

    def take(self, items: list[Any]) -> None:
        """Take a batch: judge what came, fold what is stable, let time go on to the watermark."""
        for item in items:
            channel, lateness = item.channel, self.lateness[item.channel]
            if isinstance(item, Heartbeat):
                self.watermarks[channel] = max(self.watermarks[channel], item.time)
                continue
            self.came += 1
            if item.data.time <= self.watermarks[channel]:
                self.late.append((channel, item.seq))
                continue
            self.pending.append(item)
            self.largest[channel] = max(self.largest.get(channel, NEVER), item.data.time)
            if lateness is not None:
                promised = self.largest[channel] - lateness - 1
                self.watermarks[channel] = max(self.watermarks[channel], promised)
        stable = [event for event in self.pending if event.data.time <= self.watermark]
        self.pending = [event for event in self.pending if event.data.time > self.watermark]
        for event in sorted(stable, key=self.place):
            self.ring(event.data.time)
            self.apply(event.data)
        self.ring(self.watermark + 1)

    def place(self, event: Event) -> tuple[Any, ...]:
        rank = ("Most", "Peek", "Put").index(type(event.data).__name__)
        return event.data.time, rank, event.channel, event.seq

    def apply(self, data: Any) -> None:
        if type(data).__name__ == "Most":
            self.common = data.most
            self.processed += 1
            return
        key = WHOLE if self.spec.form == "whole" else data.key
        known = self.entries.get(key)
        entry = known or self.make_entry()
        put = type(data).__name__ == "Put"
        try:
            after = self.put(entry, data) if put else entry
        except ZeroDivisionError:
            self.rejected += 1
            return
        self.processed += 1
        if not put or self.spec.form in ("keyed", "shared"):
            self.say(data.time, data.key, type(data).__name__, entry)
        if put or self.spec.drains:
            self.keep(key, after if put else self.make_entry(), data.time)
        elif not self.spec.ttl or self.spec.refresh == "reads":
            self.keep(key, entry, data.time)

    def put(self, entry: dict[str, Any], data: Any) -> dict[str, Any]:
        amount = data.amount * getattr(data, "weight", 1)
        if self.spec.form == "shared":
            amount = min(amount, self.common)
        done = {name: OPERATIONS[op].step(entry[name], amount) for name, op in self.spec.fields}
        return entry | done | {"@last": data.time}

    def keep(self, key: Any, entry: dict[str, Any], time: int) -> None:
        self.entries[key] = entry | {"@refreshed": time}
        if self.spec.sparse and self.is_fresh(entry):
            del self.entries[key]

    def is_fresh(self, entry: dict[str, Any]) -> bool:
        start = self.make_entry()
        alike = all(entry[name] == start[name] for name, _ in self.spec.fields)
        return alike and not (self.spec.alarms and entry["@last"])

    def make_entry(self) -> dict[str, Any]:
        return {name: OPERATIONS[op].start for name, op in self.spec.fields} | {"@last": 0}

    def say(self, time: int, key: int, event_type: str, entry: dict[str, Any]) -> None:
        told = [[name, OPERATIONS[op].tell(entry[name])] for name, op in sorted(self.spec.fields)]
        self.emitted.append([time, key, event_type, told[0][1] if self.spec.bare else told])

    def ring(self, before: int) -> None:
        """Let the timers come that lie before a time: alarms of what is alive, and the end of entries."""
        while wakes := [wake for wake in self.list_wakes() if wake[0] < before]:
            time, ends, key = min(wakes)
            if ends:
                del self.entries[key]
                continue
            entry = self.entries[key]
            self.say(time, key, "Alarm", entry)
            self.keep(key, entry | {"@last": 0}, time)

    def list_wakes(self) -> list[tuple[int, bool, Any]]:
        wakes = []
        for key, entry in self.entries.items():
            if self.spec.alarms and entry["@last"]:
                wakes.append((entry["@last"] + ALARM, False, key))
            if self.spec.ttl:
                wakes.append((entry["@refreshed"] + self.spec.ttl - 1, True, key))
        return wakes

    def evolve(self, spec: Spec) -> None:
        """Do to the entries what the last of a program's changes says."""
        change = spec.changes[-1] if spec.changes != self.spec.changes else None
        match type(change).__name__:
            case "Rename":
                for entry in self.entries.values():
                    entry[change.new] = entry.pop(change.old)
            case "Drop":
                for entry in self.entries.values():
                    del entry[change.field]
            case "Retype":
                for entry in self.entries.values():
                    entry[change.field] *= 100
            case "Rekey":
                self.entries = {key + 10: entry for key, entry in self.entries.items()}
        self.spec = spec
        for entry in self.entries.values():
            for name, op in spec.fields:
                entry.setdefault(name, OPERATIONS[op].start)

    def show(self) -> Any:
        """Return the whole state as the library's is shown."""
        spec = self.spec
        shown = {}
        for key, entry in self.entries.items():
            value: Any = {name: OPERATIONS[op].tell(entry[name]) for name, op in spec.fields}
            if spec.alarms:
                value["last"] = entry["@last"]
            shown[key] = (entry["@refreshed"] if spec.ttl else None, value)
        if spec.form == "whole":
            shown = shown[WHOLE]
        return (self.common, shown) if spec.form == "shared" else shown

    def show_pending(self) -> list[Any]:
        return sorted(map(tuple, map(spell, self.pending)), key=operator.itemgetter(0, 1))


def spell(event: Event) -> tuple[Any, ...]:
    """Return an event as plain values; one from before events had a weight weighs one."""
    fields = dict(event.data._asdict())
    return event.channel, event.seq, type(event.data).__name__, tuple(fields.values())[:3]
