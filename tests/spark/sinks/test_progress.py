import json

import pytest

from anabranch.errors import ConservationError, RejectionError
from anabranch.eventtime.channels import NEVER
from anabranch.eventtime.held_back import ChannelStatus
from anabranch.eventtime.ledger import Ledger
from anabranch.microbatch.runs.batch_progress import describe_batch, describe_watermarks
from anabranch.microbatch.runs.published_batches import (
    Watermarks,
    _note_since,
    find_last_batch,
    find_watermarks,
    read_waivers,
)
from anabranch.model.events import FOREVER, Heartbeat
from anabranch.spark.sinks.progress import (
    QueryError,
    describe_progress,
    explain_failure,
    read_batch,
)

BATCH = {
    "batchId": 3,
    "numInputRows": 12_000,
    "processedRowsPerSecond": 45_678.9,
    "stateOperators": [
        {"numRowsTotal": 40, "memoryUsedBytes": 3_000_000},
        {"numRowsTotal": 2, "memoryUsedBytes": 400_000},
    ],
}


class Query:
    def __init__(self, *batches):
        self.recentProgress = list(batches)


def publish(folder, number, ledger, watermarks):
    place = folder / f"batch={number}"
    place.mkdir()
    (place / "_ledger.json").write_text(json.dumps(ledger._asdict()))
    (place / "_watermarks.json").write_text(json.dumps(watermarks._asdict()))


def test_a_batch_is_one_line(tmp_path):
    publish(tmp_path, 3, Ledger(12, 7, 2, 1, 0, 2), Watermarks(4, {"north": 9, "south": 4}))
    assert describe_progress(Query(BATCH), output=tmp_path) == (
        "batch 3  12,000 rows, 45,679/s  7 processed, 2 late, 1 rejected, 2 pending  "
        "state 42 rows, 3 MB  watermark 4, held back by south; north 9"
    )


def test_without_the_sinks_folder_there_is_what_spark_knows(tmp_path):
    expected = "batch 3  12,000 rows, 45,679/s  state 42 rows, 3 MB"
    assert describe_batch(read_batch(BATCH)) == expected
    assert describe_batch(read_batch(BATCH, tmp_path)) == expected


def test_before_the_first_batch_there_is_nothing_to_say():
    assert describe_progress(Query()) == "no batch yet"


def test_events_and_the_ledger_are_read_from_the_metrics_where_nothing_is_published():
    metrics = {"input_events": 500, "input": 12, "processed": 7, "late": 2, "rejected": 1}
    metrics |= {"shed": 0, "pending": 2, "watermark": 4, "held_back_by": "south"}
    batch = {**BATCH, "batchDuration": 2_000, "observedMetrics": {"anabranch": metrics}}
    assert describe_progress(Query(batch)) == (
        "batch 3  500 rows, 250/s  7 processed, 2 late, 1 rejected, 2 pending  "
        "state 42 rows, 3 MB  watermark 4, held back by south"
    )


def test_a_query_that_waits_has_not_run_the_batch_whose_number_it_reports():
    waiting = {**BATCH, "batchId": 4, "numInputRows": 0, "durationMs": {"latestOffset": 2}}
    assert describe_progress(Query(waiting)) == "no batch yet"
    ran = {**BATCH, "durationMs": {"addBatch": 70, "latestOffset": 2}}
    assert describe_progress(Query(ran, waiting)).startswith("batch 3  12,000 rows")


@pytest.mark.parametrize(
    ("watermarks", "line"),
    [
        (Watermarks(4, {"a": 4}), "watermark 4"),
        (Watermarks(4, {"a": 4, "b": 4, "c": 5}), "watermark 4, held back by a, b; c 5"),
        (Watermarks(4, {"a": FOREVER, "b": 4}), "watermark 4, held back by b; a ended"),
        (Watermarks(FOREVER, {"a": 4, "b": 5}), "watermark ended"),
        (
            Watermarks(NEVER, {"a": 4}),
            "watermark none yet, held back by a channel that has sent nothing yet; a 4",
        ),
    ],
)
def test_the_line_says_who_holds_the_watermark_back(watermarks, line):
    assert describe_watermarks(watermarks) == line


def about(rule="in order", active_in=7, **more):
    return ChannelStatus(0, 5, 3, rule, active_in=active_in, **more).describe()


@pytest.mark.parametrize(
    ("told", "held"),
    [
        (about(), "a since batch 5 (in order)"),
        (about("lateness 10"), "a since batch 5 (lateness 10)"),
        (about("only heartbeats"), "a since batch 5 (only heartbeats)"),
        (about("estimated for 99%", delay=37), "a since batch 5 (estimated for 99%: 37 now)"),
        (about(active_in=5), "a, silent since batch 5"),
        (about(active_in=5, idle=True), "b (in order)"),
    ],
)
def test_the_line_says_why_the_watermark_is_held_back(told, held):
    channels = {"a": 4, "b": 4 if told["idle"] else 6, "c": 9}
    known = {"a": told, "b": about(), "c": about()}
    line = describe_watermarks(Watermarks(4, channels, {"a": 5, "b": 7, "c": 7}, known), 7)
    fast = "a idle, c 9" if told["idle"] else "b 6, c 9"
    assert line == f"watermark 4, held back by {held}; {fast}"


def test_a_batch_notes_when_a_channel_was_heard_last():
    counts = [{"watermark": 4, "channels": {"a": 4, "b": 7}, "about": {"a": about(), "b": about()}}]
    first = _note_since(find_watermarks(counts), None, 0)
    assert {name: status.active_in for name, status in first.statuses.items()} == {"a": 0, "b": 0}
    # A promise on behalf of a silent channel is no sign of life; a late event is one.
    counts[0]["channels"] = {"a": 6, "b": 7}
    counts[0]["about"] = {"a": about(waived=6, silence_ms=9), "b": about() | {"last": 4}}
    second = _note_since(find_watermarks(counts), first, 1)
    assert {name: status.active_in for name, status in second.statuses.items()} == {"a": 0, "b": 1}


def test_what_was_decided_by_the_clock_can_be_read_from_what_was_published(tmp_path):
    for number, (last, waived) in enumerate([(4, None), (4, 9), (4, 9), (4, 12), (8, 12), (8, 20)]):
        known = {"a": about(waived=waived) | {"last": last}}
        publish(tmp_path, number, Ledger(), Watermarks(0, {"a": 0}, None, known))
    publish(tmp_path, 10, Ledger(), Watermarks(0, {"a": 0}, None, {"a": about(waived=21)}))
    assert read_waivers(tmp_path) == [
        Heartbeat(9, "a", 4), Heartbeat(12, "a", 4), Heartbeat(20, "a", 8), Heartbeat(21, "a", 3),
    ]  # fmt: skip


def test_watermarks_are_the_least_that_any_shard_knows():
    counts = [
        {"watermark": 4, "channels": {"a": 4, "b": 7}},
        {"watermark": 4, "channels": {"a": 4, "b": 7}},
        {"input": 0},
    ]
    assert find_watermarks(counts) == Watermarks(4, {"a": 4, "b": 7})
    assert find_watermarks([]) == Watermarks(NEVER, {})


def test_the_last_batch_is_the_largest_number_not_the_last_name(tmp_path):
    assert find_last_batch(tmp_path) is None
    for number in (2, 9, 10):
        (tmp_path / f"batch={number}").mkdir()
    assert find_last_batch(tmp_path) == tmp_path / "batch=10"


FAILURE = """\
[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted due to stage failure:
Traceback (most recent call last):
  File "/x/anabranch/spark/sequences.py", line 95, in _in_order
    raise InputError(
anabranch.errors.InputError: channel 'a' went back in its sequence: 3 after 7
  expected: each part of a channel to lie after all that was read before
  got:      3 to 5
  to do:    name a sequence column that grows with the data

\tat org.apache.spark.api.python.BasePythonRunner.handlePythonException(PythonRunner.scala:600)
Driver stacktrace: SQLSTATE: XXKST"""


def test_a_failure_of_ours_is_taken_out_of_the_stack_traces():
    error = explain_failure(FAILURE)
    assert isinstance(error, QueryError)
    assert str(error) == (
        "channel 'a' went back in its sequence: 3 after 7\n"
        "  expected: each part of a channel to lie after all that was read before\n"
        "  got:      3 to 5\n"
        "  to do:    name a sequence column that grows with the data"
    )


def test_lost_events_stay_lost_events():
    text = "x\npy4j: anabranch.errors.ConservationError: events are not conserved\n  at: batch 2\n"
    error = explain_failure(text)
    assert isinstance(error, ConservationError)
    assert error.what.startswith("events are not conserved")


def test_a_failure_of_sparks_is_told_in_its_first_words():
    error = explain_failure("[STREAM_FAILED] disk is full\n\tat org.apache.X(Y.scala:1)")
    assert error.got == "[STREAM_FAILED] disk is full"


def test_too_many_rejected_keep_their_reasons():
    text = (
        "x\npy4j: anabranch.errors.RejectionError: too many events are rejected: 2 of 5\n"
        "  at:       batch 1\n"
        "  got:      once: not JSON\n"
        "            for example nonsense\n"
        "  to do:    look at out\n"
        "\n\tat org.apache.X(Y.scala:1)"
    )
    error = explain_failure(text)
    assert isinstance(error, RejectionError)
    assert str(error).splitlines()[2:4] == [
        "  got:      once: not JSON", "            for example nonsense",
    ]  # fmt: skip


def test_a_channel_that_has_not_moved_is_named_with_its_last_batch():
    watermarks = Watermarks(4, {"a": 4, "b": 4, "c": 9}, {"a": 2, "b": 3, "c": 1})
    assert describe_watermarks(watermarks, 3) == "watermark 4, held back by a since batch 2, b; c 9"
    assert describe_watermarks(watermarks) == "watermark 4, held back by a, b; c 9"


def test_a_restored_query_shows_the_batch_that_it_published(tmp_path, monkeypatch):
    for number, processed in ((3, 5), (8, 7)):
        place = tmp_path / f"batch={number}"
        place.mkdir()
        (place / "_ledger.json").write_text(json.dumps(Ledger(processed, processed)._asdict()))
        watermarks = Watermarks(number, {"a": number})
        (place / "_watermarks.json").write_text(json.dumps(watermarks._asdict()))
    found = read_batch(BATCH, tmp_path, 5)
    assert (found.number, found.ledger, found.watermarks.program) == (8, Ledger(7, 7), 8)
    monkeypatch.setattr("anabranch.spark.sinks.progress.find_first", lambda query: 5)
    assert describe_progress(Query(BATCH), output=tmp_path).startswith("batch 8  12,000 rows")
