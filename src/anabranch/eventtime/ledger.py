"""The ledger: every input event is counted in exactly one place."""

from __future__ import annotations

from typing import NamedTuple

from anabranch.errors import ConservationError


class Ledger(NamedTuple):
    """How many events came in, and what became of them."""

    input: int = 0
    processed: int = 0
    late: int = 0
    rejected: int = 0
    shed: int = 0
    pending: int = 0

    @property
    def balanced(self) -> bool:
        """Say whether every event is accounted for: the law of conservation."""
        return self.input == (self.processed + self.late + self.rejected + self.shed + self.pending)

    def check(self, where: str) -> Ledger:
        """Return the ledger, or stop: an event that vanished is a defect of the runtime."""
        if not self.balanced:
            raise ConservationError(
                "events are not conserved",
                where=where,
                expected="input = processed + late + rejected + shed + pending",
                got=str(self),
                cure="this is a defect of Anabranch; keep the input and report it",
            )
        return self

    def __str__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self._asdict().items() if count)
        return counts or "nothing came in"
