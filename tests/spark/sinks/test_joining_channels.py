"""Channels that are added at a restart on Spark: where they join is recorded, also after a crash."""

import json
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Event, Heartbeat
from anabranch.cli.main import main
from anabranch.eventtime.channels import BEFORE_ALL, Channel
from anabranch.eventtime.windows.window_types import Tumbling
from anabranch.microbatch.job.fingerprint import ChangedProgramError
from anabranch.microbatch.runs.batch_progress import describe_watermarks
from anabranch.microbatch.runs.published_batches import read_ledger, read_waivers, read_watermarks
from anabranch.query.window_aggregates import aggregate
from anabranch.reference.sequential import run as fold
from anabranch.sources.files import Files
from anabranch.spark.checkpoint.file_manifest import MANIFEST
from anabranch.state import Count, Sum
from tests.microbatch.streams import read_published
from tests.microbatch.test_microbatches import expected_rows
from tests.spark.sinks.test_directory import Put, lengths, outputs, put, write

pytestmark = pytest.mark.spark


class Sale(NamedTuple):
    time: int
    shop: str
    amount: int


windows = aggregate(Sale, Tumbling(10), per="shop", n=Count(), sum=(Sum(), "amount"))


class Shops:
    """Folders of Parquet files, one for each channel, and all that was put into them."""

    def __init__(self, home):
        self.home = home
        self.items = []
        self.files = {}

    def add(self, name, *times):
        folder = self.home / name
        folder.mkdir(exist_ok=True)
        number = self.files.get(name, 0)
        self.files[name] = number + 1
        rows = [Sale(time, "xy"[time % 2], time) for time in times]
        table = pa.Table.from_pylist([row._asdict() for row in rows])
        pq.write_table(table, folder / f"{number:03}.parquet")
        self.items += [Event(row, name, (number << 32) + n) for n, row in enumerate(rows)]

    def start(self, *names):
        from anabranch.spark import run, write_directory

        sources = [
            Files(self.home / name, files_per_batch=1, channel=name, event=Sale) for name in names
        ]
        result = run(windows, sources, shards=2, columnar="require")
        write_directory(
            result, output=self.home / "out", checkpoint=self.home / "state", available_now=True
        ).awaitTermination()


def forget_commit(checkpoint, batch):
    """Leave a checkpoint as a driver does that dies after a batch is published, before it is committed."""
    for file in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / file).unlink(missing_ok=True)
    (checkpoint / MANIFEST).unlink()  # It was written after that moment.


def emitted(rows):
    found = [(row.id, json.loads(row.value)) for row in rows if row.kind == "output"]
    return sorted((name, json.dumps(value, sort_keys=True)) for name, value in found)


def test_a_folder_joins_after_a_crash_and_the_reference_with_the_record_agrees(
    spark, tmp_path, capsys
):
    shops, out = Shops(tmp_path), tmp_path / "out"
    shops.add("m", 1, 5, 12)
    shops.add("m", 14, 27, 33)
    shops.start("m")
    published = (out / "batch=1/_watermarks.json").read_text()
    forget_commit(tmp_path / "state", 1)
    shops.add("m", 41, 52)
    shops.add("c", 8, 32, 35, 44)
    shops.start("c", "m")  # Batch 1 is repeated without c; batch 2 brings something of it.
    assert (out / "batch=1/_watermarks.json").read_text() == published
    statuses = [read_watermarks(out / f"batch={n}").statuses for n in range(3)]
    assert [status.keys() for status in statuses] == [{"m"}, {"m"}, {"c", "m"}]
    assert (statuses[2]["c"].joined, statuses[2]["c"].joined_in) == (32, 2)
    line = describe_watermarks(read_watermarks(out / "batch=2"), 2)
    assert line == "watermark 43, held back by c (in order); m 51; c joined at 32"
    shops.add("m", 60, 71)
    shops.add("c", 43, 65)
    shops.start("m", "c")
    last = read_watermarks(out / "batch=3")
    assert (last.statuses["c"].joined, last.statuses["c"].joined_in, last.program) == (32, 2, 64)

    rows = read_published(out, windows)
    late = sorted((row.time, row.reason) for row in rows if row.kind == "late")
    assert late == [
        (8, "24 behind the watermark at which its channel joined"),
        (32, "0 behind the watermark at which its channel joined"),
        (43, "0 behind its channel's watermark"),
    ]
    assert read_waivers(out) == [Heartbeat(32, "c", BEFORE_ALL)]
    answer = fold(windows, [*shops.items, *read_waivers(out)], [Channel("c"), Channel("m")])
    assert emitted(rows) == expected_rows(answer)
    assert read_ledger(out / "batch=3") == answer.ledger
    assert last.channels == answer.watermarks

    with pytest.raises(SystemExit) as ended:
        main(["watermark", str(out)])
    assert ended.value.code == 0
    assert "holds back; joined at 32 in batch 2" in capsys.readouterr().out
    with pytest.raises(
        ChangedProgramError, match="made with channel 'c', which no source declares"
    ):
        shops.start("m")


CHANNELS = [Channel("b"), Channel("c")]
SCHEMA = "type string, channel string, seq long, time long, text string"


class Texts:
    """Frames of JSON lines, each with a column that names the channel."""

    def __init__(self, spark, home):
        self.spark = spark
        self.home = home

    def source(self, folder, channels):
        from anabranch.spark import Frame

        frame = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return Frame(
            frame.json(str(self.home / folder)), type_column="type", channel_column="channel", seq="seq",
            channels=channels,
        )  # fmt: skip

    def start(self, sources, out="out", state="state"):
        from anabranch.spark import run, write_directory

        result = run(lengths, sources, shards=2)
        write_directory(
            result, output=self.home / out, checkpoint=self.home / state, available_now=True
        ).awaitTermination()


def test_a_channel_in_a_column_joins_unless_a_batch_without_it_is_unfinished(spark, tmp_path):
    from anabranch.spark import create_savepoint, restore_savepoint

    texts, out = Texts(spark, tmp_path), tmp_path / "out"
    files = [
        [put(0, 1, "x", "b"), put(1, 9, "yy", "b")],
        [put(2, 20, "zzz", "b"), put(0, 15, "early", "c")],
    ]
    write(tmp_path / "in", *files)
    texts.start([texts.source("in", CHANNELS[:1])])
    assert read_ledger(out / "batch=1").rejected == 1  # The channel is not declared yet.
    forget_commit(tmp_path / "state", 1)
    with pytest.raises(
        ChangedProgramError, match="batch 1 was planned before channel 'c'"
    ) as error:
        texts.start([texts.source("in", CHANNELS)])
    assert "start the query once without it" in str(error.value)
    texts.start([texts.source("in", CHANNELS[:1])])
    later = [
        [put(3, 30, "u", "b"), put(1, 19, "old", "c"), put(2, 25, "new", "c")],
        [put(4, 40, "v", "b"), put(3, 37, "w", "c")],
    ]
    write(tmp_path / "in", *later, first=2)
    texts.start([texts.source("in", CHANNELS)])
    assert read_watermarks(out / "batch=3").statuses["c"].joined == 19
    rows = read_published(out, lengths)
    items = [
        Event(Put(row["time"], row["text"]), row["channel"], row["seq"])
        for row in (*files[0], files[1][0], *later[0], *later[1])
    ]
    answer = fold(lengths, [*items, *read_waivers(out)], CHANNELS)
    assert outputs(rows) == sorted((o.event.seq, o.value) for o in answer.outputs)
    ledger = read_ledger(out / "batch=3")
    assert ledger == answer.ledger._replace(input=answer.ledger.input + 1, rejected=1)

    # A frame can't be added in place; with a savepoint it can, after those that were there.
    write(tmp_path / "more", [put(0, 36, "before", "a"), put(1, 50, "last", "a")])
    sources = [texts.source("in", CHANNELS), texts.source("more", [Channel("a")])]
    with pytest.raises(ChangedProgramError, match="made with other frames") as refused:
        texts.start(sources)
    assert "make a savepoint" in str(refused.value)
    kept = create_savepoint(tmp_path / "kept", checkpoint=tmp_path / "state", spark=spark)
    restore_savepoint(kept, lengths, sources, output=out, checkpoint=tmp_path / "again", shards=3)
    texts.start(sources, state="again")
    last = read_watermarks(out / "batch=5")
    assert (last.statuses["a"].joined, last.statuses["c"].joined) == (36, 19)
    assert read_waivers(out) == [Heartbeat(19, "c", BEFORE_ALL), Heartbeat(36, "a", BEFORE_ALL)]
    items += [Event(Put(36, "before"), "a", 0), Event(Put(50, "last"), "a", 1)]
    answer = fold(lengths, [*items, *read_waivers(out)], [*CHANNELS, Channel("a")])
    assert read_ledger(out / "batch=5").late == answer.ledger.late == 2
    assert last.channels == answer.watermarks
