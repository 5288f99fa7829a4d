"""Verdicts: what becomes of each part of an older state, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from anabranch.errors import AnabranchError

SAME, AUTOMATIC, DECLARED, REFUSED = "same", "automatic", "declared", "refused"


class EvolutionError(AnabranchError, ValueError):
    """State of an older program does not fit a newer one. Nothing was touched."""


@dataclass(frozen=True)
class Verdict:
    """What becomes of one part: whether it is the same, carried over or refused, and what to write."""

    status: str
    place: str
    what: str
    cure: str | None = None


def check_verdicts(verdicts: Iterable[Verdict], program: str) -> None:
    """Refuse, with every reason, if anything is refused."""
    refused = [verdict for verdict in verdicts if verdict.status == REFUSED]
    if not refused:
        return
    cures = dict.fromkeys(verdict.cure for verdict in refused if verdict.cure)
    raise EvolutionError(
        f"the older state can't be carried into {program}; nothing was touched",
        expected="state of this program, or of one whose changes it declares",
        got="; ".join(f"{verdict.place} {verdict.what}" for verdict in refused),
        cure=f"write in changes=(...): {'; '.join(cures)}" if cures else None,
    )
