"""The tasks of a query: how evenly the work is distributed over those that read and fold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

_MOST_TASKS = 1_000


class Shares(NamedTuple):
    """The distribution of the task time of the parallel stages, the busiest task of each stage first."""

    tasks: int
    shares: tuple[float, ...]


def measure_shares(session: Any, query: Any) -> Shares:
    """Return the distribution of the time of a query's parallel stages over their tasks."""
    return sum_shares(list(_list_stages(session.sparkContext, str(query.runId))))


def sum_shares(stages: Sequence[Sequence[int]]) -> Shares:
    """Return the share of the busiest task of all stages, of the next, and so on.

    A stage of one task has nothing to distribute, and is left out.

    >>> sum_shares([[30, 30], [7], [10, 30]])
    Shares(tasks=2, shares=(0.6, 0.4))
    """
    parallel = [sorted(tasks, reverse=True) for tasks in stages if len(tasks) > 1]
    width = max(map(len, parallel), default=0)
    sums = [sum(tasks[n] for tasks in parallel if n < len(tasks)) for n in range(width)]
    total = sum(sums) or 1
    return Shares(width, tuple(part / total for part in sums))


def _list_stages(context: Any, group: str) -> Iterator[list[int]]:
    """Yield the durations of the tasks of each stage; Spark keeps a query as a group of jobs."""
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()
    for job in tracker.getJobIdsForGroup(group):
        for stage in tracker.getJobInfo(job).stageIds:
            info = tracker.getStageInfo(stage)
            if info is None or not info.numCompletedTasks:
                continue  # Spark skipped it.
            found = store.taskList(stage, 0, _MOST_TASKS)
            tasks = (found.apply(place) for place in range(found.size()))
            yield [int(t.duration().get()) for t in tasks if t.duration().isDefined()]
