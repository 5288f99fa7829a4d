"""Entries that expire and state that keys share, as a query on Spark with a restart in its middle."""

import random

import pytest

from anabranch.eventtime.channels import Channel, end_channels
from anabranch.microbatch.exchange.result_rows import encode_json, identify
from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger
from anabranch.reference.sequential import run as fold
from tests.microbatch.programs import PROGRAMS
from tests.microbatch.streams import Stream, outputs_of, read_published
from tests.microbatch.test_microbatches import draw_items

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("name", ["lasting", "limited_lasting"])
def test_a_query_in_two_lives_says_what_the_fold_says(name, spark, tmp_path):
    from anabranch.spark import run as run_query
    from anabranch.spark import write_directory

    program, channels = PROGRAMS[name], tuple(Channel(name) for name in "abc")
    items = end_channels(draw_items(random.Random(3), program, 25), channels=channels)
    stream = Stream(program, channels, items)
    parts = stream.cut(random.Random(1), most=4)
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    for count in (2, len(parts)):
        stream.write(tmp_path / "in", parts[:count])
        files = session.readStream.schema(stream.schema).option("maxFilesPerTrigger", 1)
        frame = run_query(program, stream.source(files.json(str(tmp_path / "in"))), shards=3)
        write_directory(
            frame, output=tmp_path / "out", checkpoint=tmp_path / "checkpoint", available_now=True
        ).awaitTermination()
    rows = read_published(tmp_path / "out", program)
    answer = fold(program, items, channels)
    assert outputs_of(rows) == sorted(
        (f"{identify(o.key)}#{o.index}", encode_json(o.value)) for o in answer.outputs
    )
    assert read_ledger(find_last_batch(tmp_path / "out")) == answer.ledger
