import pytest

from bench.__main__ import compare, list_benches, main


def test_benches_are_listed_with_their_questions_and_not_imported(tmp_path):
    (tmp_path / "fold.py").write_text('"""How fast is a fold?\n\nMore."""\nraise SystemExit\n')
    (tmp_path / "mute.py").write_text("x = 1\n")
    (tmp_path / "__main__.py").write_text('"""The runner."""\n')
    (tmp_path / "large").mkdir()
    (tmp_path / "large" / "__main__.py").write_text('"""How large?"""\nraise SystemExit\n')
    (tmp_path / "results").mkdir()
    assert list_benches(tmp_path) == {
        "fold": "How fast is a fold?",
        "mute": "(no docstring)",
        "large": "How large?",
    }


def test_ratios_are_to_the_first_contender():
    assert compare({"loop": 200.0, "kernel": 500.0}) == {"loop": 1.0, "kernel": 2.5}


def test_a_bench_that_is_a_folder_gets_the_options(capsys: pytest.CaptureFixture[str]):
    assert main(["peers", "--only", "storm"]) == 2
    assert capsys.readouterr().err.startswith("There is no contender 'storm'.")


def test_an_unknown_bench_is_refused_by_name(capsys: pytest.CaptureFixture[str]):
    assert main(["no_such_bench"]) == 2
    assert capsys.readouterr().err.startswith("There is no benchmark 'no_such_bench'. Existing: ")
