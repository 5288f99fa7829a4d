"""What a session must be set to, what happens if it is not, and which settings do not matter."""

import random
from types import SimpleNamespace

import pytest

from anabranch.spark.session import settings as settings_module
from anabranch.spark.session.settings import SETTINGS, SettingsError, check_settings, prepare
from tests.microbatch.streams import Story, outputs_of, read_published

HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
MISSING = "spark.sql.files.ignoreMissingFiles"


class Conf(dict):
    """Spark's runtime settings, as far as they are asked for."""

    def set(self, name, value):
        self[name] = value


def make_frame(conf=(), master="local[2]", python=None):
    """Return what looks like a frame of a session that nobody has prepared."""
    import sys

    def fail(*_):
        raise RuntimeError("Traceback\nModuleNotFoundError: No module named 'anabranch'\n\tat java")

    context = SimpleNamespace(pythonExec=python or sys.executable, master=master, parallelize=fail)
    leaves = SimpleNamespace(size=lambda: 0)
    plan = SimpleNamespace(analyzed=lambda: SimpleNamespace(collectLeaves=lambda: leaves))
    session = SimpleNamespace(conf=Conf(conf), sparkContext=context)
    return SimpleNamespace(sparkSession=session, _jdf=SimpleNamespace(queryExecution=lambda: plan))


def right():
    return {setting.name: setting.needed for setting in SETTINGS}


def test_a_session_as_spark_makes_it_lacks_two_settings(message):
    with pytest.raises(SettingsError) as refusal:
        check_settings([make_frame()])
    message("session_is_not_prepared", str(refusal.value))


def test_every_setting_is_listed_with_what_to_write(message):
    wrong = {s.name: {"true": "false", "false": "TRUE"}.get(s.needed, HDFS) for s in SETTINGS}
    with pytest.raises(SettingsError) as refusal:
        check_settings([make_frame(wrong)])
    message("session_with_everything_wrong", str(refusal.value))


def test_a_session_that_is_right_is_let_through():
    check_settings([make_frame(right())])
    check_settings([make_frame({name: value.upper() if value == "true" else value
                                for name, value in right().items()})])  # fmt: skip


def test_packages_of_the_wrong_version_are_named(monkeypatch, message):
    versions = {"pandas": "3.0.1", "protobuf": "5.29.3"}
    monkeypatch.setattr(settings_module.metadata, "version", lambda name: versions[name])
    with pytest.raises(SettingsError) as refusal:
        check_settings([make_frame(right())])
    message("session_with_wrong_packages", str(refusal.value))


def test_workers_without_anabranch_are_found_before_the_query_is(monkeypatch):
    with pytest.raises(SettingsError, match=r"the Python of the workers \(python3\.9\)") as refusal:
        check_settings([make_frame(right(), "spark://host:7077", "python3.9")])
    assert "found:  ModuleNotFoundError: No module named 'anabranch'" in str(refusal.value)


def test_prepare_sets_what_is_wrong_and_returns_it():
    session = make_frame({CHANGELOG: "true", MISSING: "true"}).sparkSession
    assert prepare(session) == {PROVIDER: SETTINGS[0].needed, MISSING: "false"}
    assert prepare(session) == {}


def start(session, story, home, **options):
    from anabranch.spark import run, write_directory

    reader = session.readStream.schema(story.schema).option("maxFilesPerTrigger", 1)
    frame = reader.options(**options).json(str(home / "in"))
    result = run(story.program, story.source(frame), shards=2)
    return write_directory(
        result, output=home / "out", checkpoint=home / "checkpoint", available_now=True
    )


@pytest.mark.spark
def test_what_a_running_session_can_change_is_set_in_a_users_own_session(spark, tmp_path):
    story = Story("key_counter")
    story.write(tmp_path / "in", story.cut(random.Random(0), most=2))
    own = spark.newSession()
    own.conf.set(PROVIDER, HDFS)
    own.conf.set(CHANGELOG, "false")
    own.conf.set(MISSING, "true")
    start(own, story, tmp_path).awaitTermination()
    assert prepare(own) == {}, "the run has set them"
    rows = read_published(tmp_path / "out", story.program)
    assert outputs_of(rows) == story.expected()
    assert list((tmp_path / "checkpoint").glob("state/0/*/*.changelog"))
    assert spark.conf.get(MISSING) == "false", "another session was changed"


@pytest.mark.spark
@pytest.mark.parametrize("option", ["ignoreMissingFiles", "ignorecorruptfiles"])
def test_a_reader_that_leaves_out_files_in_silence_is_refused(spark, tmp_path, option):
    story = Story("key_counter")
    story.write(tmp_path / "in", story.cut(random.Random(0), most=2))
    with pytest.raises(SettingsError, match=r"the reader's option ignore(Missing|Corrupt)Files"):
        start(spark, story, tmp_path, **{option: "true"})


@pytest.mark.spark
def test_differential_settings_that_nobody_asks_for_do_not_show_in_the_answer(spark, tmp_path):
    from anabranch.eventtime.ledger import Ledger
    from anabranch.microbatch.runs.published_batches import find_last_batch, read_ledger

    story = Story("taxi_tips")
    story.write(tmp_path / "in", story.cut(random.Random(3), most=2))
    odd = spark.newSession()
    for name, value in {
        "spark.sql.session.timeZone": "Asia/Kathmandu",
        "spark.sql.ansi.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.caseSensitive": "true",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }.items():
        odd.conf.set(name, value)
    start(odd, story, tmp_path).awaitTermination()
    rows = read_published(tmp_path / "out", story.program)
    assert outputs_of(rows) == story.expected()
    ledger = read_ledger(find_last_batch(tmp_path / "out"))
    assert ledger == story.answer.ledger != Ledger()


@pytest.mark.spark
def test_the_zone_of_a_session_does_not_move_a_timestamp(spark):
    from anabranch.spark import Frame, run
    from tests.spark.sinks.test_directory import Put, lengths

    emitted = []
    for zone in ("UTC", "Asia/Kathmandu"):
        own = spark.newSession()
        own.conf.set("spark.sql.session.timeZone", zone)
        instant = "timestamp_micros(1700000000000000 + id) AS instant"
        wall = "timestamp_ntz'2023-11-14 22:13:20' AS wall"
        frame = own.range(2).coalesce(1).selectExpr("id", instant, wall, "'x' AS text")
        for column in ("instant", "wall"):
            source = Frame(frame, channel="s", event=Put, seq="id", time=column, lateness=10)
            rows = run(lengths, [source], shards=1).outputs.orderBy("time", "id").collect()
            emitted.append((column, [row.time for row in rows]))
    assert (
        emitted[:2]
        == emitted[2:]
        == [
            ("instant", [1_700_000_000_000_000, 1_700_000_000_000_001]),
            ("wall", [1_700_000_000_000_000, 1_700_000_000_000_000]),
        ]
    )


@pytest.mark.spark
def test_a_worker_can_be_asked(spark):
    from importlib import metadata
    from sys import version_info as own

    found = settings_module._ask_worker(spark.sparkContext)
    version = metadata.version("anabranch")
    assert found == f"Python {own.major}.{own.minor} with anabranch {version}"
