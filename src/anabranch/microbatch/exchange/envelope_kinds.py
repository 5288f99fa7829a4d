"""Kinds of envelopes: the contents of a payload in a shuffle."""

from __future__ import annotations

from enum import StrEnum


class Kind(StrEnum):
    """The contents of an envelope. A task adds the kind to each payload; the next operator reads it."""

    # From a map task to a shard.
    EVENTS = "events"
    CHUNKS = "chunks"
    REJECTED = "rejected"
    TABLE = "table"
    LATE_TABLE = "late_table"
    CLAIM = "claim"
    EARLY_DELTAS = "early_deltas"
    EARLY_ENTRIES = "early_entries"
    SLICES = "slices"

    # From a shard to a root, and from there to the operator of deferred outputs.
    RESULT_ROWS = "result_rows"
    DELTAS = "deltas"
    PENDING_DELTAS = "pending_deltas"
    DEFERRED = "deferred"
    ROOT_STATES = "root_states"

    # From a savepoint to a shard, in place of a batch; a shard forwards a spine to its root.
    RESTORE_HEAD = "restore_head"
    RESTORE_ENTRIES = "restore_entries"
    RESTORE_PENDING = "restore_pending"
    RESTORE_SLICES = "restore_slices"
    RESTORE_STATE = "restore_state"
    RESTORE_DELTAS = "restore_deltas"
    RESTORE_SPINE = "restore_spine"


def is_restore(kind: str) -> bool:
    """Return whether an envelope contains a part of a savepoint.

    >>> is_restore(Kind.RESTORE_HEAD), is_restore(Kind.EVENTS)
    (True, False)
    """
    return kind.startswith("restore_")
