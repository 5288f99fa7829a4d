"""Verdicts: the result of a migration for each part of an older state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.errors import AnabranchError

SAME, AUTOMATIC, DECLARED, REFUSED = "same", "automatic", "declared", "refused"


class EvolutionError(AnabranchError, ValueError):
    """State of an older program can't be migrated to a newer one. Nothing was changed."""


@dataclass(frozen=True)
class Verdict:
    """The result for one part: whether it is the same, migrated or refused, and the cure."""

    status: str
    place: str
    what: str
    cure: str | None = None


def check_verdicts(verdicts: Iterable[Verdict], program: str) -> None:
    """Raise `EvolutionError` with all reasons if a part is refused."""
    refused = [verdict for verdict in verdicts if verdict.status == REFUSED]
    if not refused:
        return
    cures = dict.fromkeys(verdict.cure for verdict in refused if verdict.cure)
    raise EvolutionError(
        f"the older state can't be migrated to {program}; nothing was changed",
        expected="state of this program, or of an older one with all changes declared",
        got="; ".join(f"{verdict.place} {verdict.what}" for verdict in refused),
        cure=f"write in changes=(...): {'; '.join(cures)}" if cures else None,
    )
