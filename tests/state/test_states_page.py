"""What docs/states.md shows is what happens, and it names every ready-made state."""

import doctest
import re
from pathlib import Path

import anabranch.state

PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def test_the_page_shows_what_happens():
    blocks = re.findall(r"```pycon\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 7
    test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    told: list[str] = []
    results = doctest.DocTestRunner().run(test, out=told.append)
    assert results.failed == 0, "".join(told)
    assert results.attempted > 30


def test_the_page_names_every_state():
    text = PAGE.read_text()
    table = text[text.index("## List of states") : text.index("## Values and lists")]
    changes = {"Default", "Drop", "Rekey", "Rename", "Reshape", "Retype"}
    states = [name for name in anabranch.state.__all__ if name not in changes]
    assert [name for name in states if not re.search(rf"\b{name}\b", table)] == []
