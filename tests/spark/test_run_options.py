"""The options of a run."""

from dataclasses import FrozenInstanceError, fields

import pytest

from anabranch.errors import InputError
from anabranch.microbatch.runs.run_options import RunKeywords, RunOptions, read_options


def test_the_keywords_of_a_call_are_the_fields_of_the_options():
    assert list(RunKeywords.__annotations__) == [field.name for field in fields(RunOptions)]
    options = RunOptions(shards=3, hot_keys=["a"], mode="speculative")
    assert read_options(options.keywords()) == options
    assert options.hot_keys == ("a",)
    with pytest.raises(FrozenInstanceError):
        options.shards = 4


@pytest.mark.parametrize(
    ("keywords", "reason"),
    [
        ({"shard": 2}, "a run has no option 'shard'"),
        ({"mode": "fast"}, "'fast' is not a mode"),
        ({"max_record_bytes": 0}, "max_record_bytes is not a size"),
    ],
)
def test_an_option_that_there_is_not_is_refused(keywords, reason):
    with pytest.raises(InputError, match=reason):
        read_options(keywords)
