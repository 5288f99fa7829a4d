"""Manifests: what is written is read back, and what contradicts itself is refused."""

import json

import pytest
from msgspec.structs import replace

from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.ledger import Ledger
from anabranch.savepoints.file_names import find_clash, find_fault, name_folders
from anabranch.savepoints.manifest import (
    FileRecord,
    LedgerRecord,
    ManifestError,
    read_manifest,
    record_standings,
    write_manifest,
)
from tests.savepoints.folders import describe

RECORD = FileRecord("0" * 64, 12, 1)


def sealed(**changes):
    return describe(**changes).seal({"state/part-0.parquet": RECORD})


def test_a_manifest_is_read_back_as_it_was_written():
    manifest = sealed(batch=3, offsets=('{"0": 4}',), clock_ms=17)
    read = read_manifest(write_manifest(manifest))
    assert read == manifest
    assert read.list_standings() == {"a": Standing(7, 9, 4, ((0, 1, 2),)), "b": Standing(9, 9)}
    assert read.list_ledger() == Ledger(3, 2, 0, 0, 0, 1)


def test_an_id_tells_what_is_inside_and_not_what_it_is_called():
    assert sealed(name="one").id == sealed(name="two", made_at="2027-01-01T00:00:00+00:00").id
    assert sealed().id != sealed(batch=1).id
    assert sealed().id != describe().seal({"state/part-0.parquet": replace(RECORD, rows=2)}).id


CHANGES = {
    "format_of_the_future": lambda page: page | {"format": 2},
    "format_is_true": lambda page: page | {"format": True},
    "manifest_without_a_format": lambda page: {k: v for k, v in page.items() if k != "format"},
    "manifest_with_a_field_too_many": lambda page: page | {"more": 1},
    "manifest_without_a_ledger": lambda page: {k: v for k, v in page.items() if k != "ledger"},
    "manifest_with_a_text_for_a_number": lambda page: page | {"watermark": "7"},
    "manifest_with_a_large_number": lambda page: page | {"clock_ms": 1 << 63},
    "manifest_with_another_id": lambda page: page | {"id": "0" * 64},
    "manifest_that_was_changed": lambda page: page | {"program": "another"},
    "manifest_with_a_short_sum": lambda page: (
        page | {"files": {"state/a.parquet": {"sha256": "00", "bytes": 1, "rows": 1}}}
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_manifest_that_is_not_as_the_format_says_is_refused(name, message):
    page = json.loads(write_manifest(sealed()))
    with pytest.raises(ManifestError) as error:
        read_manifest(json.dumps(CHANGES[name](page)).encode())
    message(f"savepoint_{name}", str(error.value))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b"null", b'{"a":\x00}']
)
def test_what_is_no_manifest_is_refused(data):
    with pytest.raises(ManifestError):
        read_manifest(data)


def test_a_manifest_that_is_too_large_is_refused(monkeypatch, message):
    monkeypatch.setattr("anabranch.savepoints.manifest.MOST_BYTES", 100)
    with pytest.raises(ManifestError) as error:
        read_manifest(b" " * 101)
    message("savepoint_manifest_too_large", str(error.value))


def named(path):
    return lambda: describe().seal({path: RECORD})


CONTRADICTIONS = {
    "watermarks_differ": lambda: sealed(watermarks={"a": 7}),
    "watermark_is_not_the_least": lambda: sealed(watermark=9),
    "watermark_of_nobody": lambda: sealed(standings={}, watermarks={}, watermark=9),
    "ledger_does_not_balance": lambda: sealed(ledger=LedgerRecord(*Ledger(3, 1))),
    "is_called_latest": lambda: sealed(name="latest"),
    "is_called_by_a_path": lambda: sealed(name="../up"),
    "made_at_no_zone": lambda: sealed(made_at="2026-03-01T12:00:00"),
    "file_outside": named("../state.parquet"),
    "file_is_absolute": named("/etc/passwd"),
    "file_of_windows": named("C:/x"),
    "file_is_hidden": named("state/.part"),
    "file_with_a_backslash": named("state\\part"),
    "files_differ_by_case": lambda: describe().seal({"state/a": RECORD, "State/b": RECORD}),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_manifest_that_contradicts_itself_is_neither_written_nor_read(name, message):
    manifest = CONTRADICTIONS[name]()
    with pytest.raises(ManifestError) as error:
        write_manifest(manifest)
    message(f"savepoint_{name}", str(error.value))


def test_standings_are_recorded_by_name():
    (record,) = record_standings({"a": Standing()}).values()
    assert (record.watermark, record.largest, record.waived) == (-(1 << 63), None, -(1 << 63))


def test_where_a_channel_joined_is_kept_and_a_manifest_without_it_has_the_id_of_before():
    standings = {"a": Standing(7, joined=4), "b": Standing(9)}
    watermarks = {"a": 7, "b": 9}
    manifest = sealed(standings=record_standings(standings), watermarks=watermarks, watermark=7)
    assert read_manifest(write_manifest(manifest)).list_standings() == standings
    page = json.loads(write_manifest(manifest))
    assert page["standings"]["a"]["joined"] == 4
    assert "joined" not in page["standings"]["b"]


@pytest.mark.parametrize(
    "path", ["state/part-0.parquet", "a%20b/c~2/x=1.parquet", "sources/0/9.compact"]
)
def test_plain_paths_are_fine(path):
    assert find_fault(path) is None


@pytest.mark.parametrize(
    "path",
    ["", "/", "a//b", "a/", "./a", "a/./b", "a/..", "..", "\\a", "a\\b", "c:a", "a\x00", "a\n", "é", "a.",
     "a b", ".a", "a/.b", "x" * 201, "/".join("a" * 9), "/".join(["x" * 150] * 7)],
)  # fmt: skip
def test_other_paths_are_not(path):
    assert find_fault(path) is not None


def test_folders_have_a_name_of_their_own_on_every_machine():
    folders = name_folders(["..", "a/b", "É", "Temp", "temp", "TEMP", "a~2"])
    assert all(find_fault(folder) is None for folder in folders.values())
    assert find_clash(folders.values()) is None
    assert len(set(folders.values())) == 7
