"""Paths: local ones are made absolute once, others are refused."""

import pytest

from anabranch.errors import InputError
from anabranch.paths import check_folder, check_output_apart, resolve_path, strip_scheme


@pytest.mark.parametrize("role", ["input", "output", "checkpoint", "savepoint"])
@pytest.mark.parametrize("place", ["s3a://b/out", "s3://b/out", "hdfs:/x", "S3A://b", "s3a:/b/out"])
def test_a_place_on_another_file_system_is_refused(place, role):
    with pytest.raises(InputError, match=f"the {role} .* is not on a file system of this machine"):
        resolve_path(place, role)


def test_a_file_uri_is_a_local_path(tmp_path):
    place = tmp_path / "a b"
    assert resolve_path(place.as_uri(), "output") == place
    assert resolve_path(f"file:{tmp_path}", "output") == tmp_path
    assert strip_scheme(f"file://localhost{tmp_path}", "output") == str(tmp_path)


def test_a_file_uri_of_another_host_is_refused():
    with pytest.raises(InputError, match="the host far"):
        resolve_path("file://far/x", "input")


def test_a_name_with_a_colon_is_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert resolve_path("a:b", "input") == tmp_path / "a:b"
    assert resolve_path("part=12:30/x", "input") == tmp_path / "part=12:30/x"


def test_a_missing_folder_and_a_file_have_their_own_words(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="nothing of that name"):
        check_folder(tmp_path / "none")
    with pytest.raises(InputError, match="a file"):
        check_folder(tmp_path / "file")


def test_an_output_inside_the_input_folder_is_refused(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    for output in (folder, folder / "out", folder / "a/../out.jsonl"):
        with pytest.raises(InputError, match="is inside the input folder"):
            check_output_apart(output, [folder])
    check_output_apart(tmp_path / "in2", [folder])
    check_output_apart(tmp_path / "out", [folder])
