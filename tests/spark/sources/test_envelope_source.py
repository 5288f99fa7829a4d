"""Files as a channel: in the order of their names, each once, and never unnoticed if they change."""

import csv
import json
import random
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch import Event, load
from anabranch.errors import InputError
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.microbatch.exchange.partition_keys import find_numbers
from anabranch.microbatch.exchange.result_rows import encode_json, identify
from anabranch.microbatch.ingest.file_rows import Folder
from anabranch.microbatch.ingest.look_ahead import LookAheadState
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.microbatch.runs.file_batches import read_offset, write_offset
from anabranch.reference.sequential import run
from anabranch.sources.files import ChangedFilesError, Files, Taken, list_files
from anabranch.spark.sources.envelope_source import BatchReader, FusedReader
from tests.microbatch.streams import read_published
from tests.microbatch.test_microbatches import Engine, emitted_rows, expected_rows

key_counter = load("examples/key_counter.py")
Inc, Read = key_counter.event_type("Inc"), key_counter.event_type("Read")
READING = Reading(type_column="type", channel="s", heartbeat="beat")


def write(folder, name, rows, form="parquet"):
    folder.mkdir(exist_ok=True)
    if form == "json":
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        return
    if form == "csv":
        with (folder / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, dict.fromkeys(name for row in rows for name in row))
            writer.writeheader()
            writer.writerows(rows)
        return
    table = pa.Table.from_pylist(rows)
    if form == "parquet":
        pq.write_table(table, folder / name)
    else:
        with pa.ipc.new_file(str(folder / name), table.schema) as writer:
            writer.write_table(table)


def rows_of(start, count):
    rows = [{"type": "Inc", "time": t, "key": t % 3} for t in range(start, start + count)]
    return [*rows, {"type": "Read", "time": start + count - 1, "key": 1}]


def make_reader(folder, *, form="parquet", per_batch=2, columns=True):
    engine = Engine(key_counter, [Channel("s")], 3, columns=columns)
    files = Files(folder, format=form, files_per_batch=per_batch)
    engine.job = replace(engine.job, folders=(Folder(files, READING),))
    return engine, FusedReader(engine.job, 2)


def follow(reader, engine, start=None):
    """Run what Spark would run, until there is nothing new."""
    start = reader.initialOffset() if start is None else start
    while (end := reader.latestOffset(start, None)) != start:
        numbers = find_numbers(engine.job.layout.shards)
        envelopes = [
            (numbers[row["shard"]], row["kind"], row["payload"])
            for part in reader.partitions(start, end)
            for batch in reader.read(part)
            for row in batch.to_pylist()
        ]
        engine.batch_of(envelopes)
        start = json.loads(json.dumps(end))
    return start


def test_a_folder_is_known_by_its_channels_wherever_it_stands(tmp_path):
    files = Files(tmp_path)
    north, south = (Folder(files, Reading(channel=name)) for name in ("north", "south"))
    several = Folder(files, Reading(channel_column="channel"), ("a", "b"))
    more = replace(several, names=("a", "aa", "b"))
    read = [Taken(3, "c"), Taken(5, "e")]
    offset = json.loads(json.dumps(write_offset([north, several], read, LookAheadState({}))))
    assert read_offset([more, south, north], offset)[0] == [Taken(5, "e"), Taken(), Taken(3, "c")]
    del offset["names"]  # As an earlier build wrote it.
    assert read_offset([north, several, south], offset)[0] == [*read, Taken()]


@pytest.mark.parametrize("columns", [False, True], ids=["events", "columns"])
@pytest.mark.parametrize("form", ["parquet", "arrow", "json", "csv"])
def test_differential_files_in_any_batches_give_the_sequential_answer(tmp_path, form, columns):
    parts = [rows_of(1 + 10 * n, 10) for n in range(5)] + [[{"type": None, "beat": 99}]]
    for number, rows in enumerate(parts):
        for row in rows:
            row.setdefault("beat", None)
        names = dict.fromkeys(name for row in parts[0] for name in row)
        write(tmp_path, f"{number}.{form}", [{n: row.get(n) for n in names} for row in rows], form)
    items = [
        Event(
            (Inc if row["type"] == "Inc" else Read)(row["time"], row["key"]), "s", (n << 32) + place
        )
        for n, rows in enumerate(parts[:-1])
        for place, row in enumerate(rows)
    ]
    answer = run(key_counter, end_channels(items), [Channel("s")])
    engine, reader = make_reader(tmp_path, form=form, columns=columns)
    follow(reader, engine)
    assert emitted_rows(engine) == expected_rows(answer)
    assert engine.ledger.processed == len(items)


def test_files_are_read_by_name_whatever_their_age(tmp_path):
    import os

    for number in (2, 0, 1):
        write(tmp_path, f"{number}.parquet", rows_of(1 + 10 * number, 10))
    os.utime(tmp_path / "2.parquet", (1, 1))
    engine, reader = make_reader(tmp_path, per_batch=1)
    follow(reader, engine)
    assert [engine.ledger.input, engine.ledger.late] == [33, 0]


def test_files_still_being_written_are_left_alone(tmp_path):
    write(tmp_path, "0.parquet", rows_of(1, 10))
    (tmp_path / ".1.parquet").write_bytes(b"half")
    (tmp_path / "_SUCCESS").touch()
    engine, reader = make_reader(tmp_path)
    follow(reader, engine)
    assert engine.ledger.input == 11


@pytest.mark.parametrize(("change", "cause"), [
    (lambda folder: write(folder, "0.parquet", rows_of(1, 30)), "the same names, but other contents"),
    (lambda folder: (folder / "0.parquet").unlink(), "1 files up to 1.parquet, where 2 were read"),
    (lambda folder: write(folder, "0b.parquet", rows_of(1, 2)), "3 files up to 1.parquet"),
])  # fmt: skip
def test_a_file_that_changes_after_it_was_read_is_noticed_at_the_next_start(
    tmp_path, change, cause
):
    for number in range(2):
        write(tmp_path, f"{number}.parquet", rows_of(1 + 10 * number, 10))
    engine, reader = make_reader(tmp_path)
    taken = follow(reader, engine)
    change(tmp_path)
    _, reader = make_reader(tmp_path)
    with pytest.raises(ChangedFilesError, match=cause):
        reader.latestOffset(taken, None)


@pytest.mark.parametrize("name", ["0b.parquet", "00.parquet"])
def test_a_file_that_appears_before_the_last_one_read_stops_the_running_query(tmp_path, name):
    for number in range(2):
        write(tmp_path, f"{number}.parquet", rows_of(1 + 10 * number, 10))
    engine, reader = make_reader(tmp_path)
    taken = follow(reader, engine)
    write(tmp_path, name, rows_of(1, 2))
    with pytest.raises(ChangedFilesError, match=r"3 files up to 1\.parquet, where 2 were read"):
        reader.latestOffset(taken, None)


def test_a_file_that_sorts_between_those_that_wait_is_read_in_its_place(tmp_path):
    for number in (0, 2):
        write(tmp_path, f"{number}.parquet", rows_of(1 + 10 * number, 10))
    engine, reader = make_reader(tmp_path, per_batch=1)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    write(tmp_path, "1.parquet", rows_of(11, 10))
    assert end == reader.latestOffset(start, None)
    follow(reader, engine)
    assert (engine.ledger.input, engine.ledger.late) == (33, 0)


@pytest.mark.parametrize("place", [0, 40_000, 79_990])
def test_contents_of_the_same_size_are_noticed_and_times_of_files_are_not(tmp_path, place):
    import os

    line = b'{"type": "Inc", "time": 1, "key": 1}\n'
    file = tmp_path / "0.json"
    file.write_bytes(line * (80_000 // len(line) if place else 1))
    engine, reader = make_reader(tmp_path, form="json")
    taken = follow(reader, engine)
    os.utime(file, (1, 1))
    make_reader(tmp_path, form="json")[1].latestOffset(taken, None)
    data = bytearray(file.read_bytes())
    spot = data.rindex(b"1}", 0, place or None)
    data[spot] = ord("2")
    file.write_bytes(data)
    with pytest.raises(ChangedFilesError, match="other contents"):
        make_reader(tmp_path, form="json")[1].latestOffset(taken, None)


def test_a_name_that_is_not_utf8_is_refused_before_anything_is_read(tmp_path):
    import os

    write(tmp_path, "0.parquet", rows_of(1, 10))
    try:
        (tmp_path / os.fsdecode(b"1\xff.parquet")).write_bytes(b"")
    except OSError:
        pytest.skip("this file system takes no such name")
    _, reader = make_reader(tmp_path)
    with pytest.raises(InputError, match=r"not UTF-8(?s:.*)1\\xff\.parquet"):
        reader.latestOffset(reader.initialOffset(), None)


def test_a_file_that_is_gone_before_it_is_read_is_named(tmp_path, monkeypatch):
    write(tmp_path, "0.parquet", rows_of(1, 10))
    _, reader = make_reader(tmp_path)
    monkeypatch.setattr(
        "anabranch.microbatch.runs.file_batches.list_names", lambda _: ["0.parquet", "1.parquet"]
    )
    with pytest.raises(InputError, match=r"1\.parquet can't be read"):
        reader.latestOffset(reader.initialOffset(), None)


def test_a_batch_that_is_replayed_must_find_the_files_it_was_planned_with(tmp_path):
    write(tmp_path, "0.parquet", rows_of(1, 10))
    _, reader = make_reader(tmp_path)
    start = reader.initialOffset()
    end = reader.latestOffset(start, None)
    write(tmp_path, "0.parquet", rows_of(1, 20))
    with pytest.raises(ChangedFilesError, match="other contents"):
        reader.partitions(start, end)


def test_what_comes_after_available_now_waits_for_the_next_run(tmp_path):
    write(tmp_path, "0.parquet", rows_of(1, 10))
    engine, reader = make_reader(tmp_path)
    reader.prepareForTriggerAvailableNow()
    write(tmp_path, "1.parquet", rows_of(11, 10))
    follow(reader, engine)
    assert engine.ledger.input == 11


def test_a_line_that_is_no_json_is_rejected_with_its_text_and_the_rest_is_read(tmp_path):
    write(tmp_path, "0.json", rows_of(1, 3), "json")
    with (tmp_path / "0.json").open("a") as file:
        file.write('{"type": "Inc", "time": 9, "ke\n')
        file.write(json.dumps({"type": "Inc", "time": 10, "key": 1 << 70}) + "\n")
        file.write(json.dumps({"type": "Inc", "time": "noon", "key": 1}) + "\n")
        file.write(json.dumps({"type": "Inc", "time": 10, "key": 2}) + "\n")
    engine, reader = make_reader(tmp_path, form="json")
    follow(reader, engine)
    rejected = {s.seq: (s.event, s.reason) for s in engine.emitted if s.kind == "rejected"}
    assert rejected[4][0] == '{"type": "Inc", "time": 9, "ke'
    assert rejected[5][1] == "field 'key' of Inc does not fit into 64 bits"
    assert rejected[6][1] == "field 'time' of Inc: expected int, got \"noon\" (text)"
    assert (engine.ledger.input, engine.ledger.rejected) == (8, 3)


@pytest.mark.parametrize("columns", [False, True], ids=["events", "columns"])
def test_a_line_that_is_no_row_of_csv_is_rejected_with_its_text_and_the_rest_is_read(
    tmp_path, columns
):
    write(tmp_path, "0.csv", rows_of(1, 3), "csv")
    with (tmp_path / "0.csv").open("a") as file:
        file.write('Inc,9,"1\nInc,10\n\nInc,noon,1\nInc,10,2\nInc,10,\nDec,10,2\nInc,010,2\n')
    engine, reader = make_reader(tmp_path, form="csv", columns=columns)
    follow(reader, engine)
    rejected = {s.seq: (s.event, s.reason) for s in engine.emitted if s.kind == "rejected"}
    assert rejected == {
        4: ('Inc,9,"1', "not CSV: a quote does not close its cell"),
        5: ("Inc,10", "2 columns where the header names 3"),
        6: ("Inc,noon,1", "field 'time' of Inc: expected int, got \"noon\" (text)"),
        8: ("Inc,10,", "field 'key' of Inc is missing"),
        9: ("Dec,10,2", "unknown event type 'Dec'; the program knows Inc, Read"),
        10: ("Inc,010,2", "field 'time' of Inc: expected int, got \"010\" (text)"),
    }
    assert engine.ledger.input == 11


def test_an_empty_cell_is_no_value_and_rejected_where_a_field_needs_one(tmp_path):
    (tmp_path / "0.csv").write_text('key,type,time,beat\n1,Inc,1,\n"",Inc,2,\n,,,3\n2,Inc,,\n')
    engine, reader = make_reader(tmp_path, form="csv")
    follow(reader, engine)
    rejected = {s.seq: s.reason for s in engine.emitted if s.kind == "rejected"}
    assert rejected == {
        1: "field 'key' of Inc is missing",
        3: "time 'time' is null or missing",
    }
    assert (engine.ledger.processed, engine.ledger.input) == (1, 3)


def test_a_number_of_csv_that_no_column_holds_is_rejected(tmp_path):
    write(tmp_path, "0.csv", [{"type": "Inc", "time": 1, "key": 1 << 70}], "csv")
    engine, reader = make_reader(tmp_path, form="csv")
    follow(reader, engine)
    (emitted,) = (s for s in engine.emitted if s.kind == "rejected")
    assert emitted.reason == "field 'key' of Inc does not fit into 64 bits"


@pytest.mark.parametrize("columns", [False, True], ids=["events", "columns"])
@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_sequence_or_heartbeat_of_more_than_64_bits_stops_no_stream(tmp_path, form, columns):
    rows = [
        {"type": "Inc", "time": 1, "key": 1, "place": 1, "beat": None},
        {"type": "Inc", "time": 2, "key": 1, "place": 1 << 63, "beat": None},
        {"type": None, "time": None, "key": None, "place": 3, "beat": -(1 << 64)},
        {"type": None, "time": None, "key": None, "place": 1 << 80, "beat": 4},
    ]
    write(tmp_path, "0", rows, form)
    engine, _ = make_reader(tmp_path, columns=columns)
    folder = Folder(Files(tmp_path, format=form), replace(READING, seq="place"))
    engine.job = replace(engine.job, folders=(folder,))
    follow(FusedReader(engine.job, 1), engine)
    assert [s.reason for s in engine.emitted if s.kind == "rejected"] == [
        f"sequence {1 << 63} does not fit into 64 bits",
        f"heartbeat {-(1 << 64)} does not fit into 64 bits",
        f"sequence {1 << 80} does not fit into 64 bits",
    ]
    assert (engine.ledger.input, engine.ledger.rejected) == (4, 3)


def test_a_file_that_is_no_parquet_is_named(tmp_path):
    (tmp_path / "0.parquet").write_text("no")
    engine, reader = make_reader(tmp_path)
    with pytest.raises(InputError, match=r"0\.parquet can't be read as parquet"):
        follow(reader, engine)


def test_a_batch_is_dealt_out_to_all_tasks_by_size(tmp_path):
    rng = random.Random(1)
    for number in range(8):
        write(tmp_path, f"{number}.parquet", rows_of(1 + 500 * number, rng.randint(10, 400)))
    _, reader = make_reader(tmp_path, per_batch=8)
    start = reader.initialOffset()
    parts = reader.partitions(start, reader.latestOffset(start, None))
    sizes = [sum(f.size for files in part.part.files.values() for f in files) for part in parts]
    assert len(parts) == 2
    assert max(sizes) < 2 * min(sizes)


def test_a_folder_that_is_not_there_is_named(tmp_path):
    _, reader = make_reader(tmp_path / "nowhere")
    with pytest.raises(InputError, match="there is no folder"):
        reader.latestOffset(reader.initialOffset(), None)


@pytest.mark.spark
@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_differential_a_stream_of_files_gives_the_sequential_answer(spark, tmp_path, form):
    from anabranch.spark import write_directory
    from anabranch.spark.runs import run as run_on_spark

    parts = [rows_of(1 + 20 * n, 20) for n in range(4)]
    for stage in (2, 4):
        for number in range(stage):
            write(tmp_path / "in", f"{number}.{form}", parts[number], form)
        source = Files(
            tmp_path / "in", format=form, files_per_batch=1, channel="s", type_column="type"
        )
        result = run_on_spark(key_counter, [source], shards=3)
        write_directory(
            result, output=tmp_path / "out", checkpoint=tmp_path / "checkpoint", available_now=True
        ).awaitTermination()
    items = [
        Event(
            (Inc if row["type"] == "Inc" else Read)(row["time"], row["key"]), "s", (n << 32) + place
        )
        for n, rows in enumerate(parts)
        for place, row in enumerate(rows)
    ]
    answer = run(key_counter, items, [Channel("s")])
    rows = read_published(tmp_path / "out", key_counter)
    expected = [(f"{identify(o.key)}#{o.index}", encode_json(o.value)) for o in answer.outputs]
    assert sorted((row.id, row.value) for row in rows) == sorted(expected)
    assert answer.outputs


def test_a_manifest_says_the_order_of_files_and_which_are_complete(tmp_path):
    for number, name in enumerate(("c", "a", "b")):
        write(tmp_path, f"{name}.parquet", rows_of(1 + 10 * number, 10))
    (tmp_path / "files.txt").write_text("c.parquet\na.parquet\nb.par")
    engine, _ = make_reader(tmp_path)
    files = Files(tmp_path, files_per_batch=1, manifest="files.txt")
    engine.job = replace(engine.job, folders=(Folder(files, READING),))
    taken = follow(FusedReader(engine.job, 2), engine)
    assert (engine.ledger.input, engine.ledger.late) == (22, 0)
    with (tmp_path / "files.txt").open("a") as manifest:
        manifest.write("quet\n")
    follow(FusedReader(engine.job, 2), engine, taken)
    assert (engine.ledger.input, engine.ledger.late) == (33, 0)


@pytest.mark.parametrize(("text", "cause"), [
    ("a.parquet\na.parquet\n", "a.parquet, which is twice in it"),
    ("a.parquet\nb.parquet\n", "b.parquet, which is not in the folder"),
])  # fmt: skip
def test_a_manifest_that_can_not_be_followed_is_refused(tmp_path, text, cause):
    write(tmp_path, "a.parquet", rows_of(1, 10))
    (tmp_path / "files.txt").write_text(text)
    with pytest.raises(ChangedFilesError, match=cause):
        list_files(Files(tmp_path, manifest="files.txt"), Taken())


@pytest.mark.parametrize("columns", [False, True], ids=["events", "columns"])
def test_files_that_have_ended_are_one_batch_of_any_folders(tmp_path, columns):
    for number, folder in enumerate(("north", "south", "west")):
        write(tmp_path / folder, "part.parquet", rows_of(1 + 10 * number, 10))
    names = [str(tmp_path / folder / "part.parquet") for folder in ("north", "south", "west")]
    (tmp_path / "files.txt").write_text("".join(f"{name}\n" for name in names))
    engine = Engine(key_counter, [Channel("s")], 3, columns=columns)
    files = Files(tmp_path, files_per_batch=1, manifest="files.txt", ended=True)
    engine.job = replace(engine.job, folders=(Folder(files, READING),))
    reader = BatchReader(engine.job, 2)
    numbers = find_numbers(3)
    engine.batch_of([
        (numbers[row["shard"]], row["kind"], row["payload"])
        for part in reader.partitions()
        for batch in reader.read(part)
        for row in batch.to_pylist()
    ])  # fmt: skip
    assert [engine.ledger.input, engine.ledger.late] == [33, 0]


def test_a_folder_elsewhere_is_refused_when_it_is_named():
    with pytest.raises(InputError, match="the input s3a://bucket/in is not on a file system"):
        Files("s3a://bucket/in")


def test_a_folder_given_as_a_uri_is_the_folder(tmp_path):
    assert Files(tmp_path.as_uri()) == Files(tmp_path)
