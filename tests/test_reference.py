"""The API reference: a page for each public module, which has each of its names once, with its docstring."""

import importlib
import re
from functools import cache
from pathlib import Path

import pytest

from tests.test_public_names import PUBLIC

FOLDER = Path(__file__).parents[1] / "docs" / "reference"
DIRECTIVE = re.compile(r"^::: (\S+)$", re.MULTILINE)


def find_page(module: str) -> Path:
    """Return the page of a module: the language has the package itself."""
    return FOLDER / f"{module.partition('.')[2] or 'language'}.md"


@cache
def read_sources():
    """Return the package as the reference reads it: from its files, without importing them."""
    import griffe

    return griffe.load("anabranch", search_paths=[str(FOLDER.parents[1] / "src")])


@pytest.mark.parametrize("module", PUBLIC)
def test_a_page_has_every_public_name_of_its_module_once(module):
    names = [f"{module}.{name}" for name in importlib.import_module(module).__all__]
    page = find_page(module).read_text(encoding="utf-8")
    assert page.startswith(f"# {module}\n")
    assert sorted(DIRECTIVE.findall(page)) == sorted(names)


@pytest.mark.parametrize("module", PUBLIC)
def test_every_name_has_a_docstring_where_the_reference_looks_for_it(module):
    inside = module.partition(".")[2]
    found = read_sources()[inside] if inside else read_sources()
    bare = [
        name for name in importlib.import_module(module).__all__ if not found[name].has_docstring
    ]
    assert bare == []


def test_there_is_no_other_page_and_the_first_lists_them_all():
    pages = {find_page(module) for module in PUBLIC}
    assert {*FOLDER.glob("*.md")} == {*pages, FOLDER / "index.md"}
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| \[`(\S+)`\]\((\S+)\)", index, re.MULTILINE)
    assert sorted(listed) == sorted((module, find_page(module).name) for module in PUBLIC)
