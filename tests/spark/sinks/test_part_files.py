"""A batch is all there and visible, or not at all."""

import pytest

from anabranch.errors import InputError
from anabranch.microbatch.runs.part_files import PublishingError, explain_disk
from anabranch.microbatch.runs.published_batches import find_last_batch
from anabranch.spark.sinks.batch_parts import check_parts
from anabranch.spark.sinks.progress import explain_failure, keep_trace


def test_a_part_that_the_driver_does_not_see_stops_the_batch(tmp_path):
    (tmp_path / "outputs").mkdir()
    (tmp_path / "outputs/part-00000.json").touch()
    check_parts(tmp_path, ["outputs/part-00000.json"])
    with pytest.raises(PublishingError, match="1 files of a batch are not in the output folder"):
        check_parts(tmp_path, ["outputs/part-00000.json", "outputs/part-00001.json"])


def test_a_full_disk_is_named_with_the_folder_and_a_cure():
    with pytest.raises(PublishingError) as caught, explain_disk("batch 3", "/out"):
        raise OSError(28, "No space left on device")
    assert str(caught.value).splitlines()[:2] == ["batch 3 can't be written", "  at:       /out"]
    assert caught.value.got == "OSError: [Errno 28] No space left on device"


def test_a_folder_that_only_looks_like_a_batch_is_refused(tmp_path):
    (tmp_path / "batch=2").mkdir()
    assert find_last_batch(tmp_path) == tmp_path / "batch=2"
    (tmp_path / "batch=old").mkdir()
    with pytest.raises(InputError, match="batch=old is not a batch of a query"):
        find_last_batch(tmp_path)


TRACE = """\
[FOREACH_BATCH_USER_FUNCTION_ERROR] An error occurred in the user provided function
py4j.Py4JException: An exception was raised. Return Message: Traceback (most recent call last):
  File "/x/site-packages/pyspark/sql/utils.py", line 9, in call
    raise e
  File "top.py", line 12, in <lambda>
    return 1 // 0
ZeroDivisionError: integer division or modulo by zero

\tat py4j.Protocol.getReturnValue(Protocol.java:476)
"""


def test_a_failure_begins_with_the_exception_and_the_users_line_and_keeps_the_trace():
    error = keep_trace(explain_failure(TRACE), TRACE)
    assert error.got == "ZeroDivisionError: integer division or modulo by zero"
    assert str(error.where) == "top.py:12"
    (note,) = error.__notes__
    with open(note.split()[-1], encoding="utf-8") as file:
        assert file.read() == TRACE


def test_a_failure_outside_the_program_has_no_advice_about_it():
    error = explain_failure("[STREAM_FAILED] disk is full\n\tat org.apache.X(Y.scala:1)")
    assert error.cure is None
