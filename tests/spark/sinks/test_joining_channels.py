"""Sources that are added at a restart on Spark: where they join is recorded, also after a crash."""

import json
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Event, Heartbeat
from anabranch.cli.main import main
from anabranch.eventtime.channels import BEFORE_ALL, Source
from anabranch.eventtime.windows.window_types import Tumbling
from anabranch.microbatch.job.fingerprint import ChangedProgramError
from anabranch.query.window_aggregates import aggregate
from anabranch.reference.sequential import run as fold
from anabranch.sources.files import Files
from anabranch.spark.checkpoint.file_manifest import MANIFEST
from anabranch.spark.sinks.directory import read_frontiers, read_ledger, read_waivers
from anabranch.spark.sinks.progress import describe_frontiers
from anabranch.state import Count, Sum
from tests.microbatch.test_microbatches import expected_rows
from tests.spark.sinks.test_directory import Put, lengths, outputs, put, write

pytestmark = pytest.mark.spark


class Sale(NamedTuple):
    time: int
    shop: str
    amount: int


windows = aggregate(Sale, Tumbling(10), per="shop", n=Count(), sum=(Sum(), "amount"))


class Shops:
    """Folders of Parquet files, one for each source, and all that was put into them."""

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

        feeds = [
            Files(self.home / name, files_per_batch=1, source=name, tag=Sale) for name in names
        ]
        result = run(windows, feeds, shards=2, columnar="require")
        write_directory(
            result, output=self.home / "out", checkpoint=self.home / "state", available_now=True
        ).awaitTermination()


def forget_commit(checkpoint, batch):
    """Leave a checkpoint as a driver does that dies after a batch is published, before it is committed."""
    for file in (f"{batch}", f".{batch}.crc"):
        (checkpoint / "commits" / file).unlink(missing_ok=True)
    (checkpoint / MANIFEST).unlink()  # It was written after that moment.


def said(rows):
    found = [(row.id, json.loads(row.value)) for row in rows if row.kind == "output"]
    return sorted((name, json.dumps(value, sort_keys=True)) for name, value in found)


def test_a_folder_joins_after_a_crash_and_the_reference_with_the_record_agrees(
    spark, tmp_path, capsys
):
    shops, out = Shops(tmp_path), tmp_path / "out"
    shops.add("m", 1, 5, 12)
    shops.add("m", 14, 27, 33)
    shops.start("m")
    published = (out / "batch=1/_frontiers.json").read_text()
    forget_commit(tmp_path / "state", 1)
    shops.add("m", 41, 52)
    shops.add("c", 8, 32, 35, 44)
    shops.start("c", "m")  # Batch 1 is repeated without c; batch 2 brings something of it.
    assert (out / "batch=1/_frontiers.json").read_text() == published
    stands = [read_frontiers(out / f"batch={n}").stands for n in range(3)]
    assert [stand.keys() for stand in stands] == [{"m"}, {"m"}, {"c", "m"}]
    assert (stands[2]["c"].joined, stands[2]["c"].joined_in) == (32, 2)
    line = describe_frontiers(read_frontiers(out / "batch=2"), 2)
    assert line == "frontier 43, held back by c (in order); m 51; c joined at 32"
    shops.add("m", 60, 71)
    shops.add("c", 43, 65)
    shops.start("m", "c")
    last = read_frontiers(out / "batch=3")
    assert (last.stands["c"].joined, last.stands["c"].joined_in, last.program) == (32, 2, 64)

    rows = spark.read.parquet(str(out)).collect()
    late = sorted((row.time, row.reason) for row in rows if row.kind == "late")
    assert late == [
        (8, "24 behind the frontier at which its source joined"),
        (32, "0 behind the frontier at which its source joined"),
        (43, "0 behind its source's frontier"),
    ]
    assert read_waivers(out) == [Heartbeat(32, "c", BEFORE_ALL)]
    answer = fold(windows, [*shops.items, *read_waivers(out)], [Source("c"), Source("m")])
    assert said(rows) == expected_rows(answer)
    assert read_ledger(out / "batch=3") == answer.ledger
    assert last.sources == answer.frontiers

    with pytest.raises(SystemExit) as ended:
        main(["frontier", str(out)])
    assert ended.value.code == 0
    assert "holds back; joined at 32 in batch 2" in capsys.readouterr().out
    with pytest.raises(ChangedProgramError, match="made with source 'c', and no feed declares it"):
        shops.start("m")


SOURCES = [Source("b"), Source("c")]
SCHEMA = "tag string, source string, seq long, time long, text string"


class Texts:
    """Frames of JSON lines, each with a column that names the source."""

    def __init__(self, spark, home):
        self.spark = spark
        self.home = home

    def feed(self, folder, sources):
        from anabranch.spark import Frame

        frame = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return Frame(
            frame.json(str(self.home / folder)), tag_column="tag", source_column="source", seq="seq",
            sources=sources,
        )  # fmt: skip

    def start(self, feeds, out="out", state="state"):
        from anabranch.spark import run, write_directory

        result = run(lengths, feeds, shards=2)
        write_directory(
            result, output=self.home / out, checkpoint=self.home / state, available_now=True
        ).awaitTermination()


def test_a_source_in_a_column_joins_unless_a_batch_without_it_is_unfinished(spark, tmp_path):
    from anabranch.spark import create_savepoint, restore_savepoint

    texts, out = Texts(spark, tmp_path), tmp_path / "out"
    files = [
        [put(0, 1, "x", "b"), put(1, 9, "yy", "b")],
        [put(2, 20, "zzz", "b"), put(0, 15, "early", "c")],
    ]
    write(tmp_path / "in", *files)
    texts.start([texts.feed("in", SOURCES[:1])])
    assert read_ledger(out / "batch=1").rejected == 1  # The source is not declared yet.
    forget_commit(tmp_path / "state", 1)
    with pytest.raises(ChangedProgramError, match="batch 1 was planned before source 'c'") as error:
        texts.start([texts.feed("in", SOURCES)])
    assert "start the query once without it" in str(error.value)
    texts.start([texts.feed("in", SOURCES[:1])])
    later = [
        [put(3, 30, "u", "b"), put(1, 19, "old", "c"), put(2, 25, "new", "c")],
        [put(4, 40, "v", "b"), put(3, 37, "w", "c")],
    ]
    write(tmp_path / "in", *later, first=2)
    texts.start([texts.feed("in", SOURCES)])
    assert read_frontiers(out / "batch=3").stands["c"].joined == 19
    rows = spark.read.parquet(str(out)).collect()
    items = [
        Event(Put(row["time"], row["text"]), row["source"], row["seq"])
        for row in (*files[0], files[1][0], *later[0], *later[1])
    ]
    answer = fold(lengths, [*items, *read_waivers(out)], SOURCES)
    assert outputs(rows) == sorted((o.event.seq, o.value) for o in answer.outputs)
    ledger = read_ledger(out / "batch=3")
    assert ledger == answer.ledger._replace(input=answer.ledger.input + 1, rejected=1)

    # A frame can't be added in place; with a savepoint it can, after those that were there.
    write(tmp_path / "more", [put(0, 36, "before", "a"), put(1, 50, "last", "a")])
    feeds = [texts.feed("in", SOURCES), texts.feed("more", [Source("a")])]
    with pytest.raises(ChangedProgramError, match="made with other frames") as refused:
        texts.start(feeds)
    assert "make a savepoint" in str(refused.value)
    kept = create_savepoint(spark, tmp_path / "state", tmp_path / "kept")
    restore_savepoint(kept, lengths, feeds, out, tmp_path / "again", shards=3)
    texts.start(feeds, state="again")
    last = read_frontiers(out / "batch=5")
    assert (last.stands["a"].joined, last.stands["c"].joined) == (36, 19)
    assert read_waivers(out) == [Heartbeat(19, "c", BEFORE_ALL), Heartbeat(36, "a", BEFORE_ALL)]
    items += [Event(Put(36, "before"), "a", 0), Event(Put(50, "last"), "a", 1)]
    answer = fold(lengths, [*items, *read_waivers(out)], [*SOURCES, Source("a")])
    assert read_ledger(out / "batch=5").late == answer.ledger.late == 2
    assert last.sources == answer.frontiers
