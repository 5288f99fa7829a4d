import json
import socket
import sys
from collections.abc import Iterator

import pytest

from anabranch.errors import InputError, MissingExtraError
from anabranch.spark.session import startup as session_module
from anabranch.spark.session.startup import DEFAULT_SETTINGS, start_session

pytestmark = pytest.mark.spark


def count_streamed_words(spark, folder, checkpoint):
    """Run a stateful Python query over the files of a folder and return its rows."""
    # Imported here, so that this file can be collected without them.
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    class WordCount(StatefulProcessor):
        def init(self, handle):
            self.total = handle.getValueState("total", "total long")

        def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803 - Spark's names
            seen = self.total.get()[0] if self.total.exists() else 0
            seen += sum(len(frame) for frame in rows)
            self.total.update((seen,))
            yield pd.DataFrame({"word": [key[0]], "total": [seen]})

        def close(self):
            pass

    words = spark.readStream.schema("word string").option("maxFilesPerTrigger", 1).json(str(folder))
    counts = words.groupBy("word").transformWithStateInPandas(
        statefulProcessor=WordCount(),
        outputStructType="word string, total long",
        outputMode="update",
        timeMode="None",
    )
    batches: list[tuple[int, str, int]] = []

    def collect(frame, batch):
        batches.extend((batch, row.word, row.total) for row in frame.collect())

    query = (
        counts.writeStream.outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .foreachBatch(collect)
        .start()
    )
    query.awaitTermination()
    return sorted(batches)


def write_words(file, words):
    file.parent.mkdir(exist_ok=True)
    file.write_text("".join(json.dumps({"word": word}) + "\n" for word in words))


def test_a_stateful_python_query_counts_exactly_and_goes_on_after_a_restart(spark, tmp_path):
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    write_words(folder / "1.json", ["reed", "reed", "eel"])
    assert count_streamed_words(spark, folder, checkpoint) == [(0, "eel", 1), (0, "reed", 2)]
    write_words(folder / "2.json", ["reed", "otter"])
    assert count_streamed_words(spark, folder, checkpoint) == [(1, "otter", 1), (1, "reed", 3)]
    changelogs = list(checkpoint.glob("state/0/*/**/*.changelog"))
    assert changelogs, "state went to RocksDB without changelog checkpointing"


def test_workers_run_the_interpreter_of_the_driver(spark):
    def name_interpreter(_: Iterator[int]) -> Iterator[str]:
        yield sys.executable

    workers = spark.sparkContext.parallelize([1, 2], 2).mapPartitions(name_interpreter).collect()
    assert workers == [sys.executable, sys.executable]


def test_every_default_setting_is_in_force(spark):
    in_force = {name: spark.conf.get(name) for name in DEFAULT_SETTINGS}
    assert in_force == DEFAULT_SETTINGS


def test_a_second_start_returns_the_running_session(spark):
    again = start_session(**{"spark.sql.shuffle.partitions": "2"})
    assert again.sparkContext is spark.sparkContext


def test_the_web_page_of_spark_is_as_its_configuration_has_it_unless_no_port_is_free(monkeypatch):
    assert session_module._choose_ui(ui=True) == {"spark.ui.enabled": "true"}
    assert session_module._choose_ui(ui=False) == {"spark.ui.enabled": "false"}
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket() as spare:
        spare.bind(("127.0.0.1", 0))
        free = spare.getsockname()[1]
        spare.close()
        ports = [taken.getsockname()[1], free]
        monkeypatch.setattr(session_module, "UI_PORTS", ports)
        assert session_module._choose_ui(ui=None) == {}
        monkeypatch.setattr(session_module, "UI_PORTS", ports[:1])
        assert session_module._choose_ui(ui=None) == {"spark.ui.enabled": "false"}
    with pytest.raises(InputError, match="ui is not a choice"):
        session_module._choose_ui(ui="yes")


def test_a_missing_java_is_refused_with_the_cure(monkeypatch):
    monkeypatch.setattr(session_module, "find_java", lambda: None)
    monkeypatch.setattr(session_module, "describe_search", lambda: "nothing at all")
    with pytest.raises(MissingExtraError) as refusal:
        start_session()
    assert str(refusal.value) == (
        "Spark needs Java, and no version that it runs on was found\n"
        "  expected: Java 17 or 21\n"
        "  got:      nothing at all\n"
        "  to do:    pip install 'anabranch[java]', or set JAVA_HOME to a Java 17 or 21"
    )
