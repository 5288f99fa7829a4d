"""Bytewax: `event` takes one event at a time, `arrays` takes NumPy arrays as items.

Two workers in one process. Recovery is on, with an epoch per second, except for `arrays-bare`. Order by
event time across channels is the user's to make: values and barriers, and page views, are merged with a
watermark, and so are the panes of bids in arrays; for the moving average, and for Bytewax's own windows,
one channel merges the files of a slice before it hands them on.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import bytewax.operators as op
import bytewax.operators.windowing as win
import numpy as np
import panes
import pyarrow as pa
import pyarrow.parquet as pq
from bytewax._bytewax import cluster_main
from bytewax.dataflow import Dataflow
from bytewax.inputs import FixedPartitionedSource, StatefulSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from merging import Chunk, advance, begin
from protocol import Task, keep_answer, keep_pages, keep_sampled, read_task, tell

ALPHA = 0.1
WORKERS = 2
EVENTS_PER_ITEM_LIST = 1_000
EVENTS_PER_ARRAY = 50_000
TABLES = {"fold": 0, "ewma": 1}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_tables(task: Task, channel: str) -> Iterator[pa.Table]:
    """Yield a channel slice by slice; `merged` is both channels of readings, or bids, in order."""
    if channel != "merged":
        for file in task.list_files(channel):
            yield pq.read_table(file, use_threads=False)
        return
    for files in zip(*(task.list_files(name) for name in task.channels), strict=True):
        yield pa.concat_tables([pq.read_table(file) for file in files]).sort_by("time")


class Part(StatefulSourcePartition):
    """A channel: how many batches it has handed on is all that recovery needs to know."""

    def __init__(self, task: Task, channel: str, done: int | None) -> None:
        self.task, self.channel = task, channel
        self.number = task.channels.index(channel) if channel in task.channels else 0
        self.done = done or 0
        self.batches = self.list_batches()
        for _ in range(self.done):
            next(self.batches)

    def list_batches(self) -> Iterator[list[Any]]:
        """Yield lists of items."""
        arrays = self.task.how != "event"
        size = EVENTS_PER_ARRAY if arrays else EVENTS_PER_ITEM_LIST
        for table in read_tables(self.task, self.channel):
            for batch in table.drop_columns("seq").to_batches(max_chunksize=size):
                if arrays:
                    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                    yield [(self.number, {k: c.to_numpy() for k, c in columns.items()})]
                else:
                    columns = [column.to_pylist() for column in batch.columns]
                    marks = [self.number] * batch.num_rows
                    yield list(zip(marks, *columns, strict=True))

    def next_batch(self) -> list[Any]:
        items = next(self.batches)
        self.done += 1
        return items

    def snapshot(self) -> int:
        return self.done


class Files(FixedPartitionedSource):
    """All channels of the input."""

    def __init__(self, task: Task) -> None:
        self.task = task

    def list_parts(self) -> list[str]:
        merged = self.task.kind == "ewma" or (self.task.kind, self.task.how) == ("windows", "event")
        return ["merged"] if merged else self.task.channels

    def build_part(self, step_id: str, for_part: str, resume_state: int | None) -> Part:
        return Part(self.task, for_part, resume_state)


class Kept:
    """Where the answer goes: the last of each key, or all outputs."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.first: float | None = None
        self.last: dict[str, Any] = {}
        self.emitted: list[Any] = []

    def write(self, items: list[Any]) -> None:
        """Take what comes out."""
        if self.first is None:
            self.first = time.time()
        if self.kind in TABLES:
            self.last.update(items)
        else:
            self.emitted.extend(items)


class KeptPart(StatelessSinkPartition):
    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def write_batch(self, items: list[Any]) -> None:
        self.kept.write(items)


class KeptSink(DynamicSink):
    def __init__(self, kept: Kept) -> None:
        self.kept = kept

    def build(self, step_id: str, worker_index: int, worker_count: int) -> KeptPart:
        return KeptPart(self.kept)


def fold_event(state: Any, value: float) -> tuple[Any, Any]:
    """Keep the largest value and the count."""
    state = (value, 1) if state is None else (max(value, state[0]), state[1] + 1)
    return state, state


def smooth_event(state: Any, value: float) -> tuple[Any, Any]:
    """Keep the moving average."""
    state = value if state is None else ALPHA * value + (1 - ALPHA) * state
    return state, state


class MergeEvents(StatefulBatchLogic):
    """Merge three channels event by event: values of two, and markers."""

    def __init__(self, resume: Any) -> None:
        self.total, self.version, queues, self.last = resume or (0, -1, ([], [], []), [-1, -1, -1])
        self.queues = [list(queue) for queue in queues]

    def on_batch(self, values: list[Any]) -> tuple[list[Any], bool]:
        """Queue what arrived, then take what is complete."""
        for event in values:
            self.queues[event[0]].append(event)
            self.last[event[0]] = event[1]
        watermark = min(self.last)
        marks = self.queues[2]
        place = 0
        emitted = []
        while place < len(marks) and marks[place][1] <= watermark:
            _, until, version = marks[place]
            self.total += self.add_up(0, until) + self.add_up(1, until)
            emitted.append((until, self.version, self.total))
            self.total, self.version = 0, version
            place += 1
        del marks[:place]
        return emitted, False

    def add_up(self, channel: int, until: int) -> int:
        """Take a channel's values before a marker."""
        queue, total, place = self.queues[channel], 0, 0
        for _, when, value in queue:
            if when > until:
                break
            total += value
            place += 1
        del queue[:place]
        return total

    def snapshot(self) -> Any:
        queues = tuple(list(queue) for queue in self.queues)
        return self.total, self.version, queues, list(self.last)


class MergeArrays(StatefulBatchLogic):
    """Merge three channels, array by array."""

    def __init__(self, resume: Any) -> None:
        self.merge = resume or begin()

    def on_batch(self, values: list[Any]) -> tuple[list[Any], bool]:
        """Take in arrays; return the segments that were closed."""
        self.merge, closed = advance(self.merge, values)
        return [tuple(segment) for segment in closed], False

    def snapshot(self) -> Any:
        # `advance` makes a new state and leaves the old one as it is.
        return self.merge


class FoldArrays(StatefulBatchLogic):
    """Fold arrays of keys into arrays of states: keys are places."""

    def __init__(self, keys: int, resume: Any) -> None:
        self.top, self.seen = resume or (np.full(keys, -np.inf), np.zeros(keys, np.int64))

    def on_batch(self, values: list[Any]) -> tuple[list[Any], bool]:
        """Take in arrays; say the new state of the keys that were touched."""
        key = np.concatenate([key for key, _ in values])
        value = np.concatenate([value for _, value in values])
        np.maximum.at(self.top, key, value)
        np.add.at(self.seen, key, 1)
        touched = np.unique(key)
        return [(touched, self.top[touched], self.seen[touched])], False

    def snapshot(self) -> Any:
        return self.top.copy(), self.seen.copy()


class HopArrays(StatefulBatchLogic):
    """Sum up arrays of bids in panes: auctions are places."""

    def __init__(self, hop: panes.Hop, keys: int, resume: Any) -> None:
        self.hop = hop
        self.panes, self.last = resume or (panes.begin(keys), [0, 0])

    def on_batch(self, values: list[Any]) -> tuple[list[Any], bool]:
        """Take in arrays, each with the last time of its channel; say the windows that are complete."""
        for number, last, _ in values:
            self.last[number] = last
        bids = [np.concatenate(columns) for columns in zip(*(v[2] for v in values), strict=True)]
        if len(bids[0]):
            self.panes = panes.add(self.panes, self.hop, *bids)
        self.panes, closed = panes.close(self.panes, self.hop, min(self.last))
        return [closed] if len(closed.end) else [], False

    def snapshot(self) -> Any:
        # `add` and `close` make new panes and leave the old ones as they are.
        return self.panes, list(self.last)


def build_windows(task: Task, events: Any) -> Any:
    """Return the dataflow that uses Bytewax's own windows."""
    size, every = (timedelta(milliseconds=task.manifest[name]) for name in ("size", "every"))
    # Its clock goes on with the machine's between two events, and would take for late what is read
    # slowly: so the machine's stands still, and only events, or their end, close windows.
    clock = win.EventClock(
        lambda bid: EPOCH + timedelta(milliseconds=bid[0]),
        timedelta(0),
        now_getter=lambda: EPOCH,
        to_system_utc=lambda when: None,
    )
    keyed = op.map("key", events, lambda event: (str(event[2]), (event[1], event[3])))
    return win.fold_window(
        "fold",
        keyed,
        clock,
        win.SlidingWindower(size, every, EPOCH),
        lambda: (0, 0),
        lambda held, bid: (held[0] + bid[1], held[1] + 1),
        lambda a, b: (a[0] + b[0], a[1] + b[1]),
        ordered=False,
    ).down


def build_events(task: Task, events: Any) -> Any:
    """Return the dataflow that takes one event at a time."""
    if task.kind in TABLES:
        keyed = op.map("key", events, lambda event: (str(event[2]), event[3]))
        return op.stateful_map("fold", keyed, fold_event if task.kind == "fold" else smooth_event)
    if task.kind == "windows":
        return build_windows(task, events)

    def key_value(event: tuple[Any, ...]) -> tuple[str, Any]:
        number, when, *rest = event
        if task.kind == "barrier":
            return "0", (number, when, rest[0] if rest else -1)
        return str(rest[0]), (number, when, rest[1] if number == 2 else 1)

    return op.stateful_batch("merge", op.map("key", events, key_value), MergeEvents)


def build_arrays(task: Task, arrays: Any) -> Any:
    """Return the dataflow whose items are arrays."""

    def split(item: tuple[int, dict[str, Any]]) -> Iterator[tuple[str, Any]]:
        number, columns = item
        when = columns["time"]
        if task.kind == "fold":
            for shard in range(WORKERS):
                mine = columns["key"] % WORKERS == shard
                yield str(shard), (columns["key"][mine], columns["value"][mine])
        elif task.kind == "windows":
            for shard in range(WORKERS):
                mine = columns["auction"] % WORKERS == shard
                bids = (when[mine], columns["auction"][mine] // WORKERS, columns["price"][mine])
                yield str(shard), (number, int(when[-1]), bids)
        elif task.kind == "barrier":
            yield "0", (number, Chunk(when, columns.get("value", when)))
        else:
            value = columns.get("version", np.ones(len(when), np.int64))
            for page in (0, 1):
                mine = columns["page"] == page
                yield str(page), (number, Chunk(when[mine], value[mine]))

    keyed = op.flat_map("split", arrays, split)
    keys = task.manifest["keys"] + 1
    if task.kind == "windows":
        hop = panes.Hop(task.manifest["size"], task.manifest["every"])
        places = -(-keys // WORKERS)
        return op.stateful_batch("hop", keyed, lambda resume: HopArrays(hop, places, resume))
    if task.kind != "fold":
        return op.stateful_batch("merge", keyed, MergeArrays)
    return op.stateful_batch("fold", keyed, lambda resume: FoldArrays(keys, resume))


class KeptArrays(Kept):
    """The answer as arrays, by place."""

    def __init__(self, keys: int) -> None:
        super().__init__("fold")
        self.top, self.seen = np.full(keys, -np.inf), np.zeros(keys, np.int64)

    def write(self, items: list[Any]) -> None:
        """Take the new states of some keys."""
        if self.first is None:
            self.first = time.time()
        for _, (touched, top, seen) in items:
            self.top[touched], self.seen[touched] = top, seen


def keep_windows(task: Task, emitted: list[Any]) -> None:
    """Write the results of all windows: one after the other, or as arrays by place."""
    if task.how == "event":
        size, every = task.manifest["size"], task.manifest["every"]
        rows = [(int(key), number * every + size, *held) for key, (number, held) in emitted]
        columns = list(zip(*rows, strict=True))
    else:
        parts = [(c.key * WORKERS + int(shard), *c[1:]) for shard, c in emitted]
        columns = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    keep_answer(task, **dict(zip(("auction", "end", "total", "seen"), columns, strict=True)))


def keep(task: Task, kept: Kept) -> None:
    """Write the answer."""
    if isinstance(kept, KeptArrays):
        keys = np.flatnonzero(kept.seen)
        keep_sampled(task, key=keys, top=kept.top[keys], seen=kept.seen[keys])
    elif task.kind == "fold":
        keys, states = [int(key) for key in kept.last], list(kept.last.values())
        keep_sampled(task, key=keys, top=[s[0] for s in states], seen=[s[1] for s in states])
    elif task.kind == "ewma":
        keys = [int(key) for key in kept.last]
        keep_sampled(task, key=keys, average=list(kept.last.values()))
    elif task.kind == "windows":
        keep_windows(task, kept.emitted)
    elif task.kind == "barrier":
        emitted = [segment for _, segment in kept.emitted]
        keep_answer(task, time=[s[0] for s in emitted], total=[s[2] for s in emitted])
    else:
        emitted = [(int(page), *segment) for page, segment in kept.emitted]
        keep_pages(task, [s[0] for s in emitted], [s[2] for s in emitted], [s[3] for s in emitted])


def main() -> None:
    """Run the dataflow to the end of its input."""
    task = read_task()
    arrays = task.how != "event"
    in_arrays = arrays and task.kind == "fold"
    kept = KeptArrays(task.manifest["keys"] + 1) if in_arrays else Kept(task.kind)
    flow = Dataflow("bench")
    stream = op.input("in", flow, Files(task))
    result = build_arrays(task, stream) if arrays else build_events(task, stream)
    op.output("out", result, KeptSink(kept))
    settings: dict[str, Any] = {}
    if task.how != "arrays-bare":
        place = task.scratch / "recovery"
        place.mkdir(parents=True)
        init_db_dir(place, WORKERS)
        settings["recovery_config"] = RecoveryConfig(str(place))
        settings["epoch_interval"] = timedelta(seconds=1)
    started = time.time()
    cluster_main(flow, [], 0, worker_count_per_proc=WORKERS, **settings)
    tell(task, total_s=time.time() - started, ready=started, first=kept.first)
    keep(task, kept)


if __name__ == "__main__":
    main()
