"""The ledger: every input event is counted in exactly one place."""

from __future__ import annotations

from typing import NamedTuple

from anabranch.errors import ConservationError


class Ledger(NamedTuple):
    """The number of input events, and of those processed, late, rejected, shed and pending."""

    input: int = 0
    processed: int = 0
    late: int = 0
    rejected: int = 0
    shed: int = 0
    pending: int = 0

    @property
    def balanced(self) -> bool:
        """Return whether the counts add up to the input: the law of conservation."""
        return self.input == (self.processed + self.late + self.rejected + self.shed + self.pending)

    def check(self, where: str) -> Ledger:
        """Return the ledger; raise if it does not balance, which is a bug in the runtime."""
        if not self.balanced:
            raise ConservationError(
                "events are not conserved",
                where=where,
                expected="input = processed + late + rejected + shed + pending",
                got=str(self),
                cure="this is a bug in Anabranch; keep the input and report it",
            )
        return self

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self._asdict().items() if count)
        return counts or "no input"
