"""What a worker hands on, batch by batch, without Spark around it."""

import subprocess
import sys
from collections import defaultdict

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import cloudpickle

from anabranch.eventtime.channels import Channel
from anabranch.microbatch.exchange.packed_rows import unpack
from anabranch.microbatch.exchange.partition_keys import find_keys
from anabranch.microbatch.ingest.row_reader import Reading, take_in
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.job.speculative_layout import choose_speculative_layout
from anabranch.microbatch.operators.group_operators import (
    LeafOperator,
    RootOperator,
    SingleShardOperator,
)
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.model.targets import load
from anabranch.plan.layouts import choose_layout
from anabranch.spark.operators.stateful_processor import ShardProcessor
from anabranch.state.durable.codec import make_codec

SHARDS = 3
READING = Reading(type_column="type", channel_column="channel", seq="seq", heartbeat="heartbeat")


@pytest.mark.parametrize("hot_keys", [(), (1,)], ids=["forked", "a hot key"])
def test_every_root_is_heard_in_a_batch_in_which_no_marker_became_stable(hot_keys):
    name = "key_counter" if hot_keys else "value_barrier"
    program = load(f"examples/{name}.py")
    layout = choose_layout(program, SHARDS, hot_keys)
    assert layout.has_root
    job = Job(program, layout, {"a": Channel("a"), "b": Channel("b")}, make_codec(program))
    fields = {"type": "Inc", "key": 1} if hot_keys else {"type": "Value", "value": 1}
    rows = [{**fields, "time": 5, "channel": "a", "seq": 0}]
    envelopes = list(take_in(job, READING, rows))
    heard = set()
    for number in range(SHARDS):
        worker = LeafOperator(MemoryStore(), job)
        mine = [(kind, payload) for shard, kind, payload in envelopes if shard == number]
        frame = pd.DataFrame(mine, columns=["kind", "payload"])
        mail = worker.handle(find_keys(SHARDS)[number], iter([frame]))
        heard |= {to for to in mail["to"] if to >= 0}
    # Channel b has brought nothing, so nothing is stable. Ledgers of roots must be counted anyhow.
    assert heard == (set(range(SHARDS)) if hot_keys else {0})


def run_workers(job, stores, rows):
    """Run a batch through the workers that Spark would run it through; return the result's rows."""
    found = pd.DataFrame(take_in(job, READING, rows), columns=["to", "kind", "payload"])
    found["to"] = found["to"].map(dict(enumerate(find_keys(job.layout.shards))))
    chain = [SingleShardOperator] if job.layout.shards == 1 else [LeafOperator, RootOperator]
    for kind in chain:
        results = []
        for to, frame in found.groupby("to"):
            results.append(kind(stores[kind, to], job).handle(to, iter([frame])))
        found = pd.concat(results)
    packs = pa.RecordBatch.from_pandas(found[["pack"]], preserve_index=False)
    return pa.Table.from_batches(unpack(packs)).to_pandas()


@pytest.mark.parametrize("shards", [1, SHARDS])
def test_a_root_hears_what_lies_ahead_and_takes_back_what_was_wrong(shards):
    program = load("examples/value_barrier.py")
    channels = {"a": Channel("a", lateness=None), "b": Channel("b", lateness=None)}
    layout = choose_speculative_layout(program, shards)
    job = Job(program, layout, channels, make_codec(program), mode="speculative")
    stores = defaultdict(MemoryStore)

    def run(*rows):
        result = run_workers(job, stores, rows)
        outputs = result[result["kind"] == "output"]
        return [(int(row.op), row.time, row.value) for row in outputs.itertuples()]

    def value(seq, time, amount):
        return {"type": "Value", "channel": "a", "seq": seq, "time": time, "value": amount}

    def barrier(seq, time):
        return {"type": "Barrier", "channel": "b", "seq": seq, "time": time}

    def beats(seq, time):
        return [{"channel": name, "seq": seq, "heartbeat": time} for name in "ab"]

    assert run(value(0, 1, 5), value(1, 4, 6), barrier(0, 3), barrier(1, 6)) == [
        (1, 3, "5"),
        (1, 6, "11"),
    ]
    assert run(value(2, 2, 7)) == [(-1, 3, "5"), (1, 3, "12"), (-1, 6, "11"), (1, 6, "18")]
    assert run(*beats(3, 4)) == []
    assert run(value(4, 5, 1), *beats(5, 9)) == [(-1, 6, "18"), (1, 6, "19")]


LIGHT = """
import pickle, sys
pickle.loads(bytes.fromhex(sys.argv[1]))
print(*{"pandas", "pyarrow", "numpy", "numba"} & set(sys.modules))
"""


def test_whoever_asks_an_operator_for_its_state_imports_nothing_heavy():
    program = load("examples/value_barrier.py")
    job = Job(program, choose_layout(program, 1), {"a": Channel("a")}, make_codec(program))
    data = cloudpickle.dumps(ShardProcessor(LeafOperator, job)).hex()
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, data], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"
