"""Messages of operators, batch by batch, without Spark."""

import subprocess
import sys
from collections import defaultdict

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from anabranch.eventtime.channels import Channel
from anabranch.microbatch.ingest.row_reader import Reading, take_in
from anabranch.microbatch.job.job import Job
from anabranch.microbatch.job.speculative_layout import choose_speculative_layout
from anabranch.microbatch.operators.group_operators import (
    LeafOperator,
    list_operators,
)
from anabranch.microbatch.store.state_store import MemoryStore
from anabranch.model.targets import load
from anabranch.plan.layouts import choose_layout
from anabranch.spark.operators.stateful_processor import ShardProcessor
from anabranch.state.durable.codec import make_codec

SHARDS = 3
READING = Reading(type_column="type", channel_column="channel", seq="seq", heartbeat="heartbeat")


@pytest.mark.parametrize("hot_keys", [(), (1,)], ids=["forked", "a hot key"])
def test_every_root_gets_a_message_in_a_batch_in_which_no_marker_became_stable(hot_keys):
    name = "key_counter" if hot_keys else "value_barrier"
    program = load(f"examples/{name}.py")
    layout = choose_layout(program, SHARDS, hot_keys=hot_keys)
    assert layout.has_root
    job = Job(program, layout, {"a": Channel("a"), "b": Channel("b")}, make_codec(program))
    fields = {"type": "Inc", "key": 1} if hot_keys else {"type": "Value", "value": 1}
    rows = [{**fields, "time": 5, "channel": "a", "seq": 0}]
    envelopes = list(take_in(job, READING, rows))
    found = set()
    for number in range(SHARDS):
        worker = LeafOperator(MemoryStore(), job)
        mine = [(kind, payload) for shard, kind, payload in envelopes if shard == number]
        found |= {to for to, _, _ in worker.work(number, mine).messages if to >= 0}
    # Channel b has brought nothing, so nothing is stable. Ledgers of roots must be counted anyhow.
    assert found == (set(range(SHARDS)) if hot_keys else {0})


def run_operators(job, stores, rows):
    """Run a batch through the operators of a job; return the result rows."""
    messages = list(take_in(job, READING, rows))
    tables = []
    for kind in list_operators(job):
        groups = defaultdict(list)
        for to, *message in messages:
            groups[to].append(tuple(message))
        emitted = [kind(stores[kind, to], job).work(to, groups[to]) for to in sorted(groups)]
        messages = [message for one in emitted for message in one.messages]
        tables += [one.rows for one in emitted if one.rows is not None]
    return pa.concat_tables(tables).to_pandas()


@pytest.mark.parametrize("shards", [1, SHARDS])
def test_a_root_gets_pending_deltas_and_retracts_wrong_outputs(shards):
    program = load("examples/value_barrier.py")
    channels = {"a": Channel("a", lateness=None), "b": Channel("b", lateness=None)}
    layout = choose_speculative_layout(program, shards)
    job = Job(program, layout, channels, make_codec(program), mode="speculative")
    stores = defaultdict(MemoryStore)

    def run(*rows):
        result = run_operators(job, stores, rows)
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


def test_a_processor_that_is_asked_for_its_state_imports_nothing_heavy():
    program = load("examples/value_barrier.py")
    job = Job(program, choose_layout(program, 1), {"a": Channel("a")}, make_codec(program))
    data = cloudpickle.dumps(ShardProcessor(LeafOperator, job)).hex()
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, data], capture_output=True, text=True, check=True
    )
    assert done.stdout == "\n"
