"""`anabranch state`: what a state is, and what becomes of it."""

from __future__ import annotations

import json as encoding
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.text import Text

from anabranch.cli.flags import Json
from anabranch.cli.screen import FOUND, GOOD, Screen, count_things
from anabranch.cli.target_module import load_program
from anabranch.errors import InputError
from anabranch.model.program import Program
from anabranch.savepoints.open_windows import judge_windows
from anabranch.savepoints.program_fingerprint import fingerprint_program
from anabranch.state.evolution.migration import compare
from anabranch.state.evolution.schemas import Schema, describe_program, read_schema
from anabranch.state.evolution.verdicts import AUTOMATIC, DECLARED, REFUSED, SAME

app = App(name="state", help="Show what becomes of a state.", help_epilogue="")
_OTHERS = {
    "query": "Ask SQL of the state of a query on Spark, at one committed batch.",
    "history": "Show what became of a key, batch by batch.",
    "export": "Publish the state as Parquet, once or after each batch.",
    "serve": "Answer look-ups over HTTP from a copy that follows the query.",
}
for _verb, _sentence in _OTHERS.items():
    _path = f"anabranch.cli.state_queries:{_verb}"
    app.command(_path, name=_verb, help=_sentence, help_epilogue="")

_COLOURS = {SAME: "dim", AUTOMATIC: "green", DECLARED: "cyan", REFUSED: "red"}


@app.command
def diff(
    old: Annotated[
        str, Parameter(help="A savepoint's folder, or the older program: FILE.py[:NAME].")
    ],
    new: Annotated[str, Parameter(help="The newer program, or a savepoint of it.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Tell what becomes of an older state in a newer program, before anything is touched."""
    screen = Screen(quiet=json)
    before, after = load_side(old), load_side(new)
    schema = before if isinstance(before, Schema) else describe_program(before)
    verdicts = compare(schema, after)
    if isinstance(after, Program):
        told = load_fingerprint(old) if isinstance(before, Schema) else fingerprint_program(before)
        verdicts += judge_windows(told, after)
    refused = [verdict for verdict in verdicts if verdict.status == REFUSED]
    if json:
        rows = [
            {"status": v.status, "place": v.place, "what": v.what, "cure": v.cure} for v in verdicts
        ]
        screen.print_json({"compatible": not refused, "verdicts": rows})
        return FOUND if refused else GOOD
    ordered = sorted(verdicts, key=lambda verdict: list(_COLOURS).index(verdict.status))
    screen.show_table(
        ("", "part", "what becomes of it", "write in changes=(...)"),
        [(Text(v.status, _COLOURS[v.status]), v.place, v.what, v.cure or "") for v in ordered],
    )
    if refused:
        screen.write(
            f"\n  {count_things(len(refused), 'part')} refused: {new} can't take it over",
            style="red",
        )
        return FOUND
    screen.write(f"\n  {new} can take it over", style="green")
    return GOOD


def load_fingerprint(target: str) -> dict[str, str]:
    """Return what a savepoint was made by."""
    manifest: Any = encoding.loads((Path(target) / "manifest.json").read_text(encoding="utf-8"))
    found = manifest.get("fingerprint") if isinstance(manifest, dict) else None
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def load_side(target: str) -> Schema | Program:
    """Return a program, or the schema of a savepoint."""
    folder = Path(target)
    if not folder.is_dir():
        return load_program(target)
    try:
        manifest: Any = encoding.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{target} is no savepoint",
            expected="a folder with a manifest.json",
            got=str(error),
            cure="name a savepoint's folder, or a program: FILE.py[:NAME]",
        ) from error
    return read_schema(manifest.get("schema") if isinstance(manifest, dict) else None)
