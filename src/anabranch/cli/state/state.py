"""`anabranch state`: query, export and serve state, and compare it with a newer program."""

from __future__ import annotations

import json as encoding
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.text import Text

from anabranch.cli.flags import Json
from anabranch.cli.target_module import load_program
from anabranch.cli.terminal.screen import FOUND, GOOD, Screen, count_things
from anabranch.errors import InputError
from anabranch.model.program import Program
from anabranch.savepoints.open_windows import judge_windows
from anabranch.savepoints.program_fingerprint import fingerprint_program
from anabranch.state.evolution.migration import compare
from anabranch.state.evolution.schemas import Schema, describe_program, read_schema
from anabranch.state.evolution.verdicts import AUTOMATIC, DECLARED, REFUSED, SAME

app = App(
    name="state",
    help="Query, export and serve state, and compare it with a newer program.",
    help_epilogue="",
)
_OTHERS = {
    "query": "Query the state of a checkpoint with SQL, at one committed batch.",
    "history": "Show the values of a key, batch by batch.",
    "export": "Write the state as Parquet, once or after each batch.",
    "serve": "Serve lookups over HTTP from a copy of the state that follows the query.",
}
for _verb, _sentence in _OTHERS.items():
    _path = f"anabranch.cli.state.state_queries:{_verb}"
    app.command(_path, name=_verb, help=_sentence, help_epilogue="")

_COLOURS = {SAME: "dim", AUTOMATIC: "green", DECLARED: "cyan", REFUSED: "red"}


@app.command
def diff(
    old: Annotated[
        str, Parameter(help="Folder of a savepoint, or the older program: FILE.py[:NAME].")
    ],
    new: Annotated[str, Parameter(help="Newer program (FILE.py[:NAME]), or a savepoint of it.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Show how a newer program would read an older state, part by part. Nothing is changed."""
    screen = Screen(quiet=json)
    before, after = load_side(old), load_side(new)
    schema = before if isinstance(before, Schema) else describe_program(before)
    verdicts = compare(schema, after)
    if isinstance(after, Program):
        fingerprint = (
            load_fingerprint(old) if isinstance(before, Schema) else fingerprint_program(before)
        )
        verdicts += judge_windows(fingerprint, after)
    refused = [verdict for verdict in verdicts if verdict.status == REFUSED]
    if json:
        rows = [
            {"status": v.status, "place": v.place, "what": v.what, "cure": v.cure} for v in verdicts
        ]
        screen.print_json({"compatible": not refused, "verdicts": rows})
        return FOUND if refused else GOOD
    ordered = sorted(verdicts, key=lambda verdict: list(_COLOURS).index(verdict.status))
    screen.show_table(
        ("", "part", "result", "write in changes=(...)"),
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
    """Return the fingerprint of the program that made a savepoint."""
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
            f"{target} is not a savepoint",
            expected="a folder with a manifest.json",
            got=str(error),
            cure="give the folder of a savepoint, or a program: FILE.py[:NAME]",
        ) from error
    return read_schema(manifest.get("schema") if isinstance(manifest, dict) else None)
