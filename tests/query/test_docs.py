"""docs/joins.md shows what its code prints."""

import contextlib
import io
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "joins.md"
BLOCK = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)


def test_every_block_of_code_prints_the_text_below_it():
    blocks = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    scope = {"__name__": "joins"}
    said = ""
    shown = 0
    for kind, body in blocks:
        if kind == "text":
            assert body == said
            shown += 1
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(body, str(PAGE), "exec"), scope)
        said = printed.getvalue()
    assert shown == 5
