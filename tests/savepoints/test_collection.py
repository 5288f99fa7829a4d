"""A shelf: which savepoints there are, which one is the latest, and what may be thrown away."""

import pytest

from anabranch.savepoints.collection import SavepointCollection, find_savepoint
from anabranch.savepoints.folders import NoSavepointError, open_savepoint
from anabranch.savepoints.manifest import SavepointError
from tests.savepoints.folders import list_tree, make_savepoint


def fill_shelf(root, *names):
    for hour, name in enumerate(names):
        make_savepoint(root / name, made_at=f"2026-03-01T{hour:02}:00:00+00:00")
    return SavepointCollection(root)


def list_names(shelf):
    return [savepoint.path.name for savepoint in shelf.list_savepoints()[0]]


def test_savepoints_are_listed_in_the_order_in_which_they_were_made(tmp_path):
    shelf = fill_shelf(tmp_path, "b", "c", "a")
    assert list_names(shelf) == ["b", "c", "a"]
    assert shelf.find("latest") == tmp_path / "a"
    assert shelf.find("b") == tmp_path / "b"
    assert find_savepoint(tmp_path / "latest") == tmp_path / "a"
    assert find_savepoint(tmp_path / "c") == tmp_path / "c"


def test_dates_are_compared_and_not_their_texts(tmp_path):
    make_savepoint(tmp_path / "early", made_at="2026-03-01T11:00:00+00:00")
    make_savepoint(tmp_path / "late", made_at="2026-03-01T10:30:00-05:00")
    assert list_names(SavepointCollection(tmp_path)) == ["early", "late"]


def test_what_is_no_savepoint_is_left_alone(tmp_path):
    shelf = fill_shelf(tmp_path, "a")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "x").touch()
    (tmp_path / ".b.draft-1").mkdir()
    (tmp_path / "file").touch()
    assert list_names(shelf) == ["a"]
    with pytest.raises(NoSavepointError):
        shelf.delete("notes")
    with pytest.raises(NoSavepointError):
        shelf.delete("file")
    assert (tmp_path / "notes" / "x").exists()


def test_a_broken_savepoint_is_listed_with_the_reason(tmp_path):
    shelf = fill_shelf(tmp_path, "a", "b")
    (tmp_path / "b" / "manifest.json").write_bytes(b"{}")
    found, broken = shelf.list_savepoints()
    assert [savepoint.path.name for savepoint in found] == ["a"]
    assert list(broken) == ["b"]
    assert shelf.find("latest") == tmp_path / "a"
    with pytest.raises(SavepointError):
        shelf.delete("b")
    assert (tmp_path / "b").exists()


def test_an_old_savepoint_can_be_deleted(tmp_path):
    shelf = fill_shelf(tmp_path, "a", "b")
    (tmp_path / "a" / "state" / "part-0.parquet").unlink()
    assert shelf.delete("a") == tmp_path / "a"
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
    open_savepoint(tmp_path / "b")


def test_files_that_are_none_of_the_savepoints_are_not_deleted(tmp_path, message):
    shelf = fill_shelf(tmp_path, "a")
    (tmp_path / "a" / "thesis.txt").touch()
    before = list_tree(tmp_path)
    with pytest.raises(SavepointError) as error:
        shelf.delete("a")
    message("shelf_with_a_file_of_somebody", str(error.value).replace(str(tmp_path), "FOLDER"))
    assert list_tree(tmp_path) == before


def test_a_link_is_not_deleted(tmp_path, message):
    shelf = fill_shelf(tmp_path, "a")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(SavepointError) as error:
        shelf.delete("b")
    message("shelf_with_a_link", str(error.value).replace(str(tmp_path), "FOLDER"))
    open_savepoint(tmp_path / "a")


def test_the_last_ones_are_kept(tmp_path):
    shelf = fill_shelf(tmp_path, "d", "c", "b", "a")
    assert shelf.keep(9) == []
    assert shelf.keep(2) == ["d", "c"]
    assert list_names(shelf) == ["b", "a"]


def test_what_is_not_there_is_said(tmp_path, message):
    shelf = fill_shelf(tmp_path, "a")
    for name, call in {
        "shelf_without_that_one": lambda: shelf.find("b"),
        "shelf_that_is_empty": lambda: SavepointCollection(tmp_path / "a").find("latest"),
        "shelf_that_is_none": lambda: SavepointCollection(tmp_path / "b").find("latest"),
        "shelf_that_keeps_nothing": lambda: shelf.keep(0),
    }.items():
        with pytest.raises(SavepointError) as error:
            call()
        message(name, str(error.value).replace(str(tmp_path), "FOLDER"))
