"""`--follow` and `--trigger`: what they mean, and where they mean nothing."""

import pytest

from anabranch.cli.main import run_command
from anabranch.cli.run.run_request import RunPlace, RunRequest, read_interval
from anabranch.errors import InputError

KEYS = "examples/key_counter.py"


@pytest.mark.parametrize(
    ("place", "trigger"),
    [
        (RunPlace(spark=True), {"availableNow": True}),
        (RunPlace(spark=True, follow=True), {"processingTime": "1 seconds"}),
        (RunPlace(spark=True, follow=True, trigger="5 s"), {"processingTime": "5 seconds"}),
    ],
)
def test_a_run_takes_what_is_there_or_looks_again_and_again(place, trigger):
    assert RunRequest(place).trigger == trigger


@pytest.mark.parametrize("text", ["", "5", "soon", "-1 seconds", "0.5 s", "5 weeks", "5 s 3 ms"])
def test_what_is_no_interval_is_refused(text):
    with pytest.raises(InputError, match="--trigger is not an interval"):
        read_interval(text)


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("follow_by_reference", ["--input", "IN", "--output", "OUT", "--follow", "--reference"]),
        ("follow_a_file", ["--input", "IN/0.jsonl", "--output", "OUT", "--follow", "--spark"]),
        ("follow_without_an_output", ["--input", "IN", "--follow", "--spark"]),
        ("follow_as_json", ["--input", "IN", "--output", "OUT", "--follow", "--spark", "--json"]),
        ("trigger_without_follow", ["--input", "IN", "--trigger", "5 s", "--spark"]),
        ("trigger_that_is_none", ["--input", "IN", "--output", "OUT", "--follow", "--spark",
                                  "--trigger", "soon"]),
    ],
)  # fmt: skip
def test_a_flag_that_means_nothing_is_refused(name, flags, tmp_path, capsys, message):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.jsonl").write_text("")
    places = {"IN": str(tmp_path / "in"), "OUT": str(tmp_path / "out")}
    words = [places.get(word, word.replace("IN/", places["IN"] + "/")) for word in flags]
    assert run_command(["run", KEYS, *words]) == 2
    message(name, capsys.readouterr().err)
    assert not (tmp_path / "out").exists()
