"""Verification: compare a simulated plan with the sequential fold, seed by seed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anabranch.equivalence import compare
from anabranch.eventtime.channels import Channel
from anabranch.model.events import Item
from anabranch.model.failures import Failed, attempt
from anabranch.model.program import Program
from anabranch.plan.tree import Plan
from anabranch.reference.sequential import Answer, Output, run
from anabranch.reference.simulator import Faults, Rehearsal, Simulation, rehearse


@dataclass(frozen=True)
class Mismatch:
    """A seed under which a plan did not give the sequential answer."""

    seed: int
    plan: str
    reason: str

    def __str__(self) -> str:
        return f"seed {self.seed} on plan {self.plan!r}: {self.reason}"


@dataclass(frozen=True)
class PlanTrial:
    """A program, a plan, an input, and the answer that every seed must give."""

    plan: Plan
    rehearsal: Rehearsal
    answer: Answer

    def verify(
        self,
        seed: int,
        faults: Faults = Faults(),  # noqa: B008 - frozen
        *,
        trace: bool = False,
    ) -> tuple[Simulation | None, Mismatch | None]:
        """Run one seed, compare it with the answer, and return the simulation and the mismatch.

        A fork or join that raises, or an assertion of the simulator, is a mismatch too: the sequential
        fold uses no forks, and has given an answer.
        """
        simulation = attempt(self.rehearsal.run, seed, faults, trace=trace)
        if isinstance(simulation, Failed):
            return None, Mismatch(seed, self.plan.name, simulation.reason)
        reason = self._compare(simulation)
        return simulation, None if reason is None else Mismatch(seed, self.plan.name, reason)

    def _compare(self, simulation: Simulation) -> str | None:
        expected, program = self.answer.outputs, self.rehearsal.program
        if not self.rehearsal.ended:
            # Nodes do not wait for channels that they do not depend on, so they may be ahead.
            emitted = {output.id: output for output in simulation.outputs}
            missing = [output for output in expected if emitted.get(output.id) != output]
            return f"missing {missing[0]}" if missing else None
        if simulation.outputs != expected:
            difference = compare(expected, simulation.outputs, lambda a, b: _depend(program, a, b))
            if difference is not None:
                return difference.describe()
        if not simulation.ended:
            return "the run stopped before the end of its input"
        if not program.initial.shape.same(simulation.state, self.answer.state):
            return f"the final state is {simulation.state!r}, expected {self.answer.state!r}"
        if simulation.ledger != self.answer.ledger:
            return f"the ledger is {simulation.ledger}, expected {self.answer.ledger}"
        return None


def prepare(
    program: Program,
    plan: Plan,
    items: Iterable[Item],
    channels: Iterable[Channel] = (),
    *,
    then: Sequence[Plan] = (),
) -> PlanTrial:
    """Return a trial: the sequential answer, and the assignment of the plan and of those in `then`."""
    items, channels = list(items), list(channels)
    rehearsal = rehearse(program, plan, items, channels, then=then)
    return PlanTrial(plan, rehearsal, run(program, items, channels))


def _depend(program: Program, a: Output, b: Output) -> bool:
    return a.key == b.key or program.dependence.depend(a.event, b.event)
