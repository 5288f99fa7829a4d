"""What an operator hands on, batch by batch, without Spark around it."""

import pandas as pd
import pytest

from anabranch.eventtime.sources import Source
from anabranch.model.targets import load
from anabranch.plan.wiring import wire
from anabranch.spark.intake import Reading, take_in
from anabranch.spark.operators import LeafOperator
from anabranch.spark.placement import find_keys
from anabranch.spark.shards import Job
from anabranch.spark.stores import MemoryStore
from anabranch.state.codec import make_codec

SHARDS = 3


@pytest.mark.parametrize("hot", [(), (1,)], ids=["forked", "a hot key"])
def test_every_root_is_heard_in_a_batch_in_which_no_marker_became_stable(hot):
    name = "key_counter" if hot else "value_barrier"
    program = load(f"examples/{name}.py")
    wiring = wire(program, SHARDS, hot)
    assert wiring.has_root
    job = Job(program, wiring, {"a": Source("a"), "b": Source("b")}, make_codec(program))
    fields = {"tag": "Inc", "key": 1} if hot else {"tag": "Value", "value": 1}
    rows = [{**fields, "time": 5, "source": "a", "seq": 0}]
    reading = Reading(tag_column="tag", source_column="source", seq="seq")
    envelopes = list(take_in(job, reading, rows))
    heard = set()
    for number in range(SHARDS):
        operator = LeafOperator(job)
        operator._store = MemoryStore()
        mine = [(kind, payload) for shard, kind, payload in envelopes if shard == number]
        frame = pd.DataFrame(mine, columns=["kind", "payload"])
        for mail in operator.handleInputRows((find_keys(SHARDS)[number],), iter([frame]), None):
            heard |= {to for to in mail["to"] if to >= 0}
    # Source b has brought nothing, so nothing is stable. Ledgers of roots must be counted anyhow.
    assert heard == (set(range(SHARDS)) if hot else {0})
