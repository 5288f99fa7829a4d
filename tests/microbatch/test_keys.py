"""Keys that are floats: NaN is one key and -0.0 is 0.0, on every runtime; no Spark is needed."""

import math
import struct
from typing import NamedTuple

import pytest

from anabranch import Event, Heartbeat, Program, depends, on
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.model.slices import Shard, take
from anabranch.model.values.hashing import hash_stably
from anabranch.model.values.keys import plain_key
from anabranch.model.values.maps import Map
from anabranch.reference.sequential import run
from anabranch.reference.speculative import run as run_speculatively
from anabranch.state import Count, MapOf
from anabranch.state.durable.codec import make_codec
from tests.microbatch.test_microbatches import Engine


class Put(NamedTuple):
    time: int
    key: float


program = Program(
    on(Put, update=lambda n, e: n + 1, output=lambda n, e: n),
    depends(Put, Put, same="key"),
    state=MapOf(Count(), by="key"),
)
ODD = struct.unpack("d", struct.pack("Q", 0xFFF8000000000001))[0]
KEYS = [float("nan"), math.nan, 0.0, ODD, -0.0, float("nan"), 1.5]
COUNTS = [0, 1, 0, 2, 1, 3, 0]
ITEMS = [Event(Put(time, key), "s", time) for time, key in enumerate(KEYS)]


def test_the_reference_counts_every_nan_under_one_key():
    answer = run(program, end_channels(ITEMS), [Channel("s")])
    assert [output.value for output in answer.outputs] == COUNTS
    assert dict(answer.state) == {math.nan: 4, 0.0: 2, 1.5: 1}


@pytest.mark.parametrize("hot_keys", [(), (float("nan"),)])
@pytest.mark.parametrize("shards", [1, 4])
@pytest.mark.parametrize("columns", [False, True])
def test_shards_count_every_nan_under_one_key_also_in_later_batches(shards, columns, hot_keys):
    engine = Engine(program, [Channel("s")], shards, hot_keys, columns=columns)
    for item in [*ITEMS, Heartbeat(99, "s", 99)]:
        beat = isinstance(item, Heartbeat)
        row = {
            "type": None if beat else "Put", "channel": "s", "seq": item.seq, "time": item.time,
            "key": None if beat else item.data.key, "heartbeat": item.time if beat else None,
        }  # fmt: skip
        engine.batch([[row]])
    emitted = sorted((row.seq, int(row.value)) for row in engine.emitted if row.kind == "output")
    assert [count for _, count in emitted] == COUNTS


def test_a_map_finds_a_nan_that_was_written_and_read_again():
    codec = make_codec(program)
    held = codec.decode(codec.encode(Map({float("nan"): 1, (1, float("nan")): 2})))
    assert held[float("nan")] == 1
    assert held[1, float("nan")] == 2
    assert len(held.set(ODD, 3)) == 2
    assert len(held.remove(float("nan"))) == 1


def test_one_key_has_one_hash_and_belongs_to_one_slice():
    assert len({hash_stably(key) for key in (math.nan, -math.nan, ODD)}) == 1
    assert hash_stably(-0.0) == hash_stably(0.0) == hash_stably(0)
    assert take(Put, key=math.nan).covers(ITEMS[0])
    assert take(Put, key=math.nan).overlaps(take(Put, key=ODD))
    assert sum(take(Put, key=Shard(n, 3)).covers(ITEMS[3]) for n in range(3)) == 1
    assert math.copysign(1, plain_key(-0.0)) == 1


def test_speculation_counts_every_nan_under_one_key():
    emitted = run_speculatively(program, end_channels(ITEMS), [Channel("s")]).rows
    assert [row.value for row in emitted] == COUNTS
