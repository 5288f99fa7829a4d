"""Folders of events in the layout of the command line."""

from typing import NamedTuple

from anabranch import Program, on
from anabranch.eventtime import Source
from anabranch.sources.files import Files
from anabranch.spark.sources.frames import feed_directory, name_columns


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


def test_a_folder_is_a_feed_of_files_and_not_of_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    feed = feed_directory(None, make(Visit), "in", [Source("a")], files_per_batch=3)
    assert feed.frame == Files(tmp_path / "in", "json", 3)
    assert (feed.source_column, feed.seq, feed.json_column) == ("@source", "seq", None)
