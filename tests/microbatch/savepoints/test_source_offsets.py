"""Where Spark's channels go on after a restore: those that are added begin."""

import pytest

from anabranch.microbatch.savepoints.source_offsets import line_up_offsets
from anabranch.savepoints.manifest import SavepointError

ONE, TWO, FILES = '{"logOffset":1}', '{"logOffset":2}', '{"0":{},"seen_ahead":{}}'


@pytest.mark.parametrize(("saved", "asked", "files", "lined"), [
    ([ONE, TWO], 2, False, [ONE, TWO]),
    ([ONE, TWO], 3, False, [ONE, TWO, "-"]),
    ([ONE, FILES], 3, True, [ONE, "-", FILES]),
    ([ONE], 2, True, [ONE, "-"]),
    ([FILES], 3, True, ["-", "-", FILES]),
    ([ONE, "-"], 2, True, [ONE, "-"]),
])  # fmt: skip
def test_frames_go_on_in_their_order_and_files_come_last(saved, asked, files, lined):
    assert line_up_offsets(saved, asked, files=files) == lined


@pytest.mark.parametrize(("saved", "asked", "files", "expected", "got"), [
    ([ONE, TWO], 1, False, "2 frames", "1 frame"),
    ([ONE, FILES], 2, False, "1 frame and files", "2 frames"),
    ([ONE], 1, True, "1 frame", "files"),
])  # fmt: skip
def test_a_source_that_is_missing_is_refused(saved, asked, files, expected, got):
    with pytest.raises(SavepointError, match="sources that are missing now") as error:
        line_up_offsets(saved, asked, files=files)
    assert f"expected: {expected}, in the same order" in str(error.value)
    assert f"got:      {got}\n" in str(error.value)
