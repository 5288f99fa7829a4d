"""Pathway, in static mode: it reads all files, then prints the answer. Nothing is persisted."""

import time
from typing import Any

import pathway as pw
from protocol import Task, keep_answer, keep_pages, keep_sampled, read_task, tell

ALPHA = 0.1
TYPES = {
    "readings": {"time": int, "key": int, "value": float},
    "values": {"time": int, "value": int},
    "barriers": {"time": int},
    "views": {"time": int, "page": int},
    "updates": {"time": int, "page": int, "version": int},
    "bids": {"time": int, "auction": int, "price": int},
}


def read_channels(task: Task, name: str) -> Any:
    """Return all channels of a kind as one table."""
    schema = pw.schema_from_types(**TYPES[name])
    folders = [channel for channel in task.channels if channel.startswith(name)]
    tables = [
        pw.io.csv.read(str(task.folder / "csv-header" / folder), schema=schema, mode="static")
        for folder in folders
    ]
    first, *others = tables
    return pw.Table.concat_reindex(first, *others) if others else first


def smooth(state: Any, rows: Any) -> Any:
    """Return the moving average after some rows, taken by time."""
    for (_, value), _count in sorted((tuple(row), count) for row, count in rows):
        state = value if state is None else ALPHA * value + (1 - ALPHA) * state
    return state


def build(task: Task) -> Any:
    """Return the table that answers."""
    if task.kind in ("fold", "ewma"):
        readings = read_channels(task, "readings")
        grouped = readings.groupby(readings.key)
        if task.kind == "fold":
            return grouped.reduce(
                readings.key, top=pw.reducers.max(readings.value), seen=pw.reducers.count()
            )
        average = pw.reducers.stateful_many(smooth)
        return grouped.reduce(readings.key, average=average(readings.time, readings.value))
    if task.kind == "windows":
        bids = read_channels(task, "bids")
        window = pw.temporal.sliding(hop=task.manifest["every"], duration=task.manifest["size"])
        return bids.windowby(bids.time, window=window, instance=bids.auction).reduce(
            auction=pw.this._pw_instance,
            end=pw.this._pw_window_end,
            total=pw.reducers.sum(pw.this.price),
            seen=pw.reducers.count(),
        )
    if task.kind == "barrier":
        values, barriers = read_channels(task, "values"), read_channels(task, "barriers")
        joined = values.asof_join(
            barriers,
            values.time,
            barriers.time,
            how=pw.JoinMode.LEFT,
            direction=pw.temporal.Direction.FORWARD,
        ).select(time=barriers.time, value=values.value)
        return joined.groupby(joined.time).reduce(joined.time, total=pw.reducers.sum(joined.value))
    views, updates = read_channels(task, "views"), read_channels(task, "updates")
    joined = views.asof_join(
        updates, views.time, updates.time, views.page == updates.page, how=pw.JoinMode.LEFT
    ).select(page=views.page, version=updates.version)
    return joined.groupby(joined.page, joined.version).reduce(
        joined.page, joined.version, seen=pw.reducers.count()
    )


def main() -> None:
    """Run the table to the end of its input."""
    task = read_task()
    rows: dict[Any, dict[str, Any]] = {}
    noted: list[float] = []

    def take(key: Any, row: dict[str, Any], time: int, is_addition: bool) -> None:  # noqa: FBT001 - Pathway's signature
        if not noted:
            noted.append(now())
        if is_addition:
            rows[key] = row
        elif rows.get(key) == row:
            del rows[key]

    pw.io.subscribe(build(task), on_change=take)
    started = now()
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)
    tell(task, total_s=now() - started, ready=started, first=noted[0] if noted else None)
    emitted = list(rows.values())
    if task.kind == "barrier":
        emitted = [row for row in emitted if row["time"] is not None]
        keep_answer(task, **{name: [row[name] for row in emitted] for name in ("time", "total")})
    elif task.kind == "pages":
        keep_pages(task, *([row[name] for row in emitted] for name in ("page", "version", "seen")))
    elif task.kind == "windows":
        names = ("auction", "end", "total", "seen")
        keep_answer(task, **{name: [row[name] for row in emitted] for name in names})
    else:
        names = ("key", "top", "seen") if task.kind == "fold" else ("key", "average")
        keep_sampled(task, **{name: [row[name] for row in emitted] for name in names})


def now() -> float:
    """Return the time; a parameter of Pathway's callback has the module's name."""
    return time.time()


if __name__ == "__main__":
    main()
