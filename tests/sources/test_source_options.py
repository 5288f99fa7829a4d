"""Sources: what their options mean, and which are refused."""

from typing import NamedTuple

import pytest

from anabranch import Program, on
from anabranch.errors import InputError
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.microbatch.ingest.source_readings import make_reading
from anabranch.sources import Channel
from anabranch.sources.files import Files
from anabranch.sources.source_options import list_sources, name_columns


class Sale(NamedTuple):
    time: int
    shop: str


class Visit(NamedTuple):
    time: int
    channel: str


def make(*event_types):
    return Program(
        *(on(event_type, update=lambda n, e: n + 1) for event_type in event_types), init=0
    )


def test_a_field_called_channel_leaves_the_word_to_the_field():
    names = name_columns(make(Sale, Visit))
    assert names == {"type": "type", "channel": "@channel", "seq": "seq", "heartbeat": "heartbeat"}


def test_files_of_a_program_have_columns_for_type_channel_sequence_and_heartbeat(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    source = Files.of(make(Visit), "in", files_per_batch=3, format="json", channels=[Channel("a")])
    assert source == Files(
        tmp_path / "in", format="json", files_per_batch=3, type_column="type",
        channel_column="@channel", seq="seq", heartbeat="heartbeat", channels=[Channel("a")],
    )  # fmt: skip


def test_a_folder_of_one_event_type_needs_no_options():
    source = Files("in/north")
    assert source.declared() == [Channel("north")]
    assert make_reading(source, make(Sale)) == Reading(event_type="Sale", channel="north")


def test_promises_of_a_source_are_those_of_its_one_channel():
    source = Files("in/north", channel="n", lateness=5, max_ahead=9, idle_after_s=60)
    assert source.declared() == [Channel("n", lateness=5, max_ahead=9, idle_after_s=60)]


def test_one_source_may_be_given_without_a_list():
    source = Files("in/north")
    assert (
        list_sources(source) == list_sources([source]) == list_sources(iter([source])) == [source]
    )


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"channel": "a", "channel_column": "s"}, "a source has both channel= and channel_column="),
        ({"channel_column": "s"}, "the channels in column 's' are not declared"),
        ({"channels": [Channel("a")]}, "no column contains the channel of a row"),
        (
            {"channel_column": "s", "channels": [Channel("a")], "lateness": 5},
            "lateness is given for a source of several channels",
        ),
        ({"json_column": "j", "corrupt_column": "c"}, "a source has both json_column="),
        ({"event": 3}, "event of a source is not an event type"),
        ({"channel_column": "s", "channels": ["a"]}, "channels of a source are not declared"),
        ({"lateness": -1}, "lateness of channel 'north' is too small"),
        ({"seq": 3}, "seq of a source is not the name of a column"),
        ({"format": "xml"}, "'xml' is not a file format"),
        ({"files_per_batch": 0}, "a batch reads no files"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, reason):
    with pytest.raises(InputError, match=reason):
        Files("in/north", **options)


@pytest.mark.parametrize(
    ("source", "program", "reason"),
    [
        (Files("in"), make(Sale, Visit), "the source of 'in' does not name the type of its events"),
        (
            Files("in", event=Visit),
            make(Sale),
            "has events that the program does not handle",
        ),
    ],
)
def test_a_source_without_a_type_that_the_program_handles_is_refused(source, program, reason):
    with pytest.raises(InputError, match=reason):
        make_reading(source, program)


@pytest.mark.parametrize(
    ("sources", "reason"), [([], "there is no source"), (["in"], "str is not a source")]
)
def test_what_is_no_source_is_refused(sources, reason):
    with pytest.raises(InputError, match=reason):
        list_sources(sources)
