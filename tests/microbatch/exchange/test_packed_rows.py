"""Packs: rows in, the same rows out, and beside them what is counted."""

import json

import pyarrow as pa

from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.exchange.packed_rows import make_table, pack, summarize, unpack
from anabranch.microbatch.exchange.result_rows import ResultRow, describe_ledger

OUTPUT = ResultRow("output", "a#0", 5, "Read", "reads", 0, 0, "[1, 3]", "{}", None)
SHARD = {"watermark": 8, "channels": {"a": 8, "b": 9}, "input_events": 4, "held_back_by": "a"}
LEDGERS = [
    describe_ledger("shard", 0, Ledger(7, 4, 1, 1, 0, 1), SHARD),
    describe_ledger("root", 0, Ledger(0, 1, 0, -1), {}),
]


def test_what_is_packed_is_unpacked():
    table = make_table([OUTPUT, *LEDGERS])
    batch = pa.record_batch({"pack": pa.array(list(pack(table)), pa.binary())})
    assert pa.Table.from_batches(unpack(batch)) == table


def test_ledger_rows_are_summed_up_beside_a_pack():
    assert json.loads(summarize(make_table([OUTPUT, *LEDGERS]))) == {
        "input_events": 4, "input": 7, "processed": 5, "late": 1, "rejected": 0, "shed": 0,
        "pending": 1, "output_rows": 1, "watermark": 8, "held_back_by": "a",
    }  # fmt: skip
    assert json.loads(summarize(make_table(LEDGERS[1:])))["output_rows"] == 0
