"""Feeds: what their options mean, and which are refused."""

from typing import NamedTuple

import pytest

from anabranch import Program, on
from anabranch.errors import InputError
from anabranch.eventtime import Source
from anabranch.microbatch.ingest.feed_readings import make_reading
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.sources.feeds import list_feeds, name_columns
from anabranch.sources.files import Files


class Sale(NamedTuple):
    time: int
    shop: str


class Visit(NamedTuple):
    time: int
    source: str


def make(*tags):
    return Program(*(on(tag, update=lambda n, e: n + 1) for tag in tags), init=0)


def test_a_field_called_source_leaves_the_word_to_the_field():
    names = name_columns(make(Sale, Visit))
    assert names == {"tag": "tag", "source": "@source", "seq": "seq", "heartbeat": "heartbeat"}


def test_files_of_a_program_have_columns_for_type_source_sequence_and_heartbeat(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    feed = Files.of(make(Visit), "in", files_per_batch=3, format="json", sources=[Source("a")])
    assert feed == Files(
        tmp_path / "in", format="json", files_per_batch=3, tag_column="tag",
        source_column="@source", seq="seq", heartbeat="heartbeat", sources=[Source("a")],
    )  # fmt: skip


def test_a_folder_of_one_event_type_needs_no_options():
    feed = Files("in/north")
    assert feed.declared() == [Source("north")]
    assert make_reading(feed, make(Sale)) == Reading(tag="Sale", source="north")


def test_promises_of_a_feed_are_those_of_its_one_source():
    feed = Files("in/north", source="n", lateness=5, ahead=9, idle_after_s=60)
    assert feed.declared() == [Source("n", lateness=5, ahead=9, idle_after_s=60)]


def test_one_feed_may_be_given_without_a_list():
    feed = Files("in/north")
    assert list_feeds(feed) == list_feeds([feed]) == list_feeds(iter([feed])) == [feed]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"source": "a", "source_column": "s"}, "a name for its source, and a column of names"),
        ({"source_column": "s"}, "the sources in column 's' are not declared"),
        ({"sources": [Source("a")]}, "no column names the source of a row"),
        (
            {"source_column": "s", "sources": [Source("a")], "lateness": 5},
            "lateness is given for a feed of several sources",
        ),
        ({"json_column": "j", "corrupt_column": "c"}, "reads JSON itself, and leaves it"),
        ({"tag": 3}, "tag of a feed is not an event type"),
        ({"source_column": "s", "sources": ["a"]}, "sources of a feed are not declared"),
        ({"lateness": -1}, "lateness of source 'north' is not a distance in time"),
        ({"seq": 3}, "seq of a feed is not the name of a column"),
        ({"format": "xml"}, "'xml' is no format of files"),
        ({"files_per_batch": 0}, "a batch takes no files"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, reason):
    with pytest.raises(InputError, match=reason):
        Files("in/north", **options)


@pytest.mark.parametrize(
    ("feed", "program", "reason"),
    [
        (Files("in"), make(Sale, Visit), "the feed of 'in' does not name the type of its events"),
        (Files("in", tag=Visit), make(Sale), "is of events that the program does not handle"),
    ],
)
def test_a_feed_without_a_type_that_the_program_handles_is_refused(feed, program, reason):
    with pytest.raises(InputError, match=reason):
        make_reading(feed, program)


@pytest.mark.parametrize(
    ("feeds", "reason"), [([], "there is nothing to run on"), (["in"], "str is not a feed")]
)
def test_what_is_no_feed_is_refused(feeds, reason):
    with pytest.raises(InputError, match=reason):
        list_feeds(feeds)
