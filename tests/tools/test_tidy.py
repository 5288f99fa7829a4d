from pathlib import Path

import pytest

from tools.tidy import check_file, check_package, walk_text_files

# In pieces, so that the rule under test does not find this file.
OPEN_END = "TO" + "DO"
HOME_OF_ANN = "/home" + "/ann/data.csv"


def explain(name, text):
    return [str(finding) for finding in check_file(Path(name), text)]


def test_a_clean_module_has_no_findings():
    assert explain("src/anabranch/lanes.py", '"""Lanes."""\n\n\ndef fold():\n    return 1\n') == []


@pytest.mark.parametrize("name", ["src/utils.py", "src/_helpers.py", "src/common/lanes.py"])
def test_an_empty_name_is_found_in_file_and_folder(name):
    (finding,) = explain(name, "")
    assert finding.endswith("Cure: put each thing in the noun it serves, or delete it.")


def test_a_module_may_have_600_lines_but_not_601():
    assert explain("lanes.py", "x = 1\n" * 600) == []
    assert explain("lanes.py", "x = 1\n" * 601) == [
        "lanes.py:1: 601 lines, more than 600. Cure: split it by idea, one noun for each file."
    ]


def test_a_function_may_have_70_lines_but_not_71():
    body = "    x = 1\n"
    assert explain("lanes.py", "def fold():\n" + body * 69) == []
    assert explain("lanes.py", "\ndef fold():\n" + body * 70) == [
        (
            "lanes.py:2: fold has 71 lines, more than 70. "
            "Cure: give its steps names and make them functions."
        )
    ]


def test_an_open_end_is_found_with_its_line():
    assert explain("lanes.py", f"x = 1\n# {OPEN_END}: later\n") == [
        f"lanes.py:2: {OPEN_END} left in the code. Cure: do it now, or open an issue."
    ]


@pytest.mark.parametrize("name", ["lanes.py", "README.md", "Makefile"])
def test_a_machine_path_is_found_in_any_text(name):
    (finding,) = explain(name, f"read {HOME_OF_ANN}\n")
    assert finding.startswith(f"{name}:1: '{HOME_OF_ANN[:11]}…' is a path of one machine.")


def test_a_link_that_contains_such_a_word_is_no_machine_path():
    assert explain("README.md", "https://example.org/work/paper.html and src/work/x\n") == []


def test_hidden_folders_and_build_products_are_not_walked(tmp_path):
    for name in ["src/lanes.py", ".venv/x.py", "site/x.md", ".ci/run", "docs/index.md", "x.png"]:
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    walked = [str(file.relative_to(tmp_path)) for file in walk_text_files(tmp_path)]
    assert walked == [".ci/run", "docs/index.md", "src/lanes.py"]


def explain_package(files):
    return [str(f) for f in check_package({Path(name): text for name, text in files.items()})]


def test_a_folder_may_have_14_modules_but_not_15():
    modules = {f"src/anabranch/plan/rule{n}.py": "" for n in range(13)}
    whole = {**modules, "src/anabranch/plan/__init__.py": ""}
    assert explain_package(whole) == []
    assert explain_package({**whole, "src/anabranch/plan/more.py": ""}) == [
        (
            "src/anabranch/plan:1: 15 modules, more than 14. "
            "Cure: give what belongs together a folder of its own."
        )
    ]


def test_two_modules_or_classes_of_one_name_are_found():
    named = explain_package(
        {
            "src/anabranch/plan/tree.py": "class Node:\n    pass\n",
            "src/anabranch/state/tree.py": "\nclass Node:\n    pass\n",
            "tests/plan/tree.py": "class Node:\n    pass\n",
        }
    )
    assert [line.partition(". Cure")[0] for line in named] == [
        "src/anabranch/state/tree.py:1: module 'tree' is also in src/anabranch/plan/tree.py",
        "src/anabranch/state/tree.py:2: class 'Node' is also in src/anabranch/plan/tree.py",
    ]


def test_a_page_that_names_a_module_which_is_gone_is_found():
    files = {
        "src/anabranch/plan/tree.py": "",
        "ARCHITECTURE.md": "`plan/tree.py`\n`plan/wood.py`\n",
    }
    (finding,) = explain_package(files)
    assert finding.startswith("ARCHITECTURE.md:2: plan/wood.py is not there")


@pytest.mark.parametrize("name", ["src/anabranch/lanes.py", "docs/lanes.md"])
def test_a_retired_word_is_found_with_what_to_write(name):
    (finding,) = explain(name, "# the front" + "ier of a channel\n")
    assert finding == f"{name}:1: 'front" + "ier' is not a word of ours. Cure: write watermark."
    assert explain("tests/test_lanes.py", "# the front" + "ier of a channel\n") == []
