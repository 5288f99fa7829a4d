"""Histories: the names of a record, its fields or an enum's members after each change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from anabranch.state.evolution.changes import Change, Drop, Rename, Retype
from anabranch.state.evolution.fitting import Convert, class_name


@dataclass
class History:
    """The current names of the fields of an older record; None for a dropped field."""

    names: dict[str, str | None]
    functions: dict[str, list[Convert]] = field(default_factory=dict)
    clashes: list[str] = field(default_factory=list)

    @property
    def older_names(self) -> dict[str, str]:
        """Return the older name of each current field."""
        return {now: before for before, now in self.names.items() if now is not None}


def trace_record(name: str, changes: Iterable[Change]) -> list[str]:
    """Return all names that a record had, the current one last."""
    names = [class_name(name)]
    for change in changes:
        if isinstance(change, Rename) and change.new is None and change.record == names[-1]:
            names.append(change.old)
    return names


def trace_fields(record: str, fields: Iterable[str], changes: Iterable[Change]) -> History:
    """Return the history of a record's fields after the changes, in their order."""
    changes = tuple(changes)
    own = trace_record(record, changes)
    history = History({name: name for name in fields})
    for change in changes:
        match change:
            case Rename(name, old, str(new)) if name in own:
                _rename(history, old, new)
            case Drop(name, dropped) if name in own and dropped in history.older_names:
                history.names[history.older_names[dropped]] = None
            case Retype(name, retyped, function) if name in own and retyped in history.older_names:
                history.functions.setdefault(history.older_names[retyped], []).append(function)
    return history


def _rename(history: History, old: str, new: str) -> None:
    if old in history.older_names and new in history.older_names:
        history.clashes.append(new)
    elif old in history.older_names:
        history.names[history.older_names[old]] = new


def find_unknown(
    changes: Iterable[Change], old: dict[str, tuple[str, ...]], new: dict[str, tuple[str, ...]]
) -> list[Retype]:
    """Return retypes of unknown fields: a misspelt one would never be applied."""
    changes = tuple(changes)
    known: set[tuple[str, str]] = set()
    for name, fields in (*old.items(), *new.items()):
        known |= {(one, field) for one in trace_record(name, changes) for field in fields}
    for change in changes:
        match change:
            case Rename(name, before, str(after)):
                known |= {(name, before), (name, after)}
            case Drop(name, dropped):
                known.add((name, dropped))
    return [c for c in changes if isinstance(c, Retype) and (c.record, c.field) not in known]
