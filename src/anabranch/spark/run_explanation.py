"""What a run on Spark makes of a program, in words: who folds what, by columns or not, compiled or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.eventtime.channels import Source
from anabranch.kernels.kernel import explain_kernel
from anabranch.microbatch.job.column_plan import plan_columns
from anabranch.microbatch.job.path_choice import describe_row_path
from anabranch.microbatch.job.speculative_layout import choose_speculative_layout
from anabranch.model.program import Program
from anabranch.plan.layouts import choose_layout

_SHARDS = 16


def explain_run(program: Program, sources: Iterable[Source] = ()) -> list[str]:
    """Return the lines that tell how a program runs on Spark, with these sources or plain ones."""
    wiring = choose_layout(program, _SHARDS)
    lines = [
        f"{wiring.way}: {reason}" if n == 0 else reason for n, reason in enumerate(wiring.reasons)
    ]
    if wiring.has_root or wiring.way == "shared":
        ahead = choose_speculative_layout(program, _SHARDS).reasons
        lines += [reason for reason in ahead if reason not in wiring.reasons]
    plan = plan_columns(program, wiring, {s.name: s for s in sources}, numbered=True)
    if isinstance(plan, str):
        return [*lines, describe_row_path(program, plan)]
    lines.append("by columns: events are never looked at one by one")
    early = [tag.__name__ for tag in program.tags if tag in plan.early]
    if early:
        lines.append(f"from files, as deltas, folded where they are read: {', '.join(early)}")
    if plan.windows is not None and plan.windows.gap is None:
        share = plan.windows.size // plan.windows.width
        lines.append(f"windows are joined from slices, {share} to a window, which they share")
    folded = set(plan.kernels)
    return [
        *lines,
        *(
            f"{v.tag}: {v}"
            for v in explain_kernel(program)
            if _is_folded(program, wiring, v, folded)
        ),
    ]


def _is_folded(program: Program, wiring: Any, verdict: Any, folded: set[str]) -> bool:
    if verdict.state not in folded:
        return False
    leaves = {tag.__name__ for tag in wiring.leaves}
    return wiring.way != "forked" or verdict.tag in leaves
