"""`anabranch examples`: the programs that come with Anabranch."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

import anabranch
from anabranch.cli.flags import Json
from anabranch.cli.terminal.screen import GOOD, Screen
from anabranch.errors import InputError, TargetError

app = App(name="examples", help="List, show and copy the example programs.", help_epilogue="")

Name = Annotated[str, Parameter(help="The example's name; `anabranch examples` lists them.")]


def find_folder() -> Path:
    """Return the folder of the examples: in the installed package, or beside its source."""
    package = Path(anabranch.__file__).parent
    for folder in (package / "_examples", package.parent.parent / "examples"):
        if folder.is_dir():
            return folder
    raise TargetError("the examples were not installed", expected=str(package / "_examples"))


def list_examples() -> dict[str, Path]:
    """Return the file of every example, by name."""
    files = sorted(find_folder().glob("*.py"))
    return {file.stem: file for file in files if not file.stem.startswith("_")}


def find_example(name: str) -> Path:
    """Return the file of an example."""
    known = list_examples()
    name = name.removesuffix(".py")
    if name not in known:
        raise TargetError(
            f"there is no example {name!r}",
            expected=f"one of {', '.join(known)}",
            got=name,
        )
    return known[name]


def describe_example(file: Path) -> str:
    """Return the first sentence of an example's docstring."""
    story = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(story.split("\n\n")[0].split())


@app.default
@app.command(name="list")
def show_list(*, json: Json = False) -> int:
    """List the examples."""
    screen = Screen(quiet=json)
    stories = {name: describe_example(file) for name, file in list_examples().items()}
    if json:
        screen.print_json([{"name": n, "description": story} for n, story in stories.items()])
        return GOOD
    screen.show_table(("example", "what it does"), stories.items())
    screen.print("\n[dim]anabranch examples show NAME, anabranch examples copy NAME[/]")
    return GOOD


@app.command
def show(name: Name, /) -> int:
    """Print an example."""
    Screen().show_code(find_example(name).read_text(encoding="utf-8"), indent=0)
    return GOOD


@app.command
def copy(
    name: Name,
    destination: Annotated[
        Path, Parameter(help="Folder or .py file to write to (default: this folder).")
    ] = Path(),
    /,
    *,
    force: Annotated[bool, Parameter(help="Overwrite an existing file.")] = False,
) -> int:
    """Copy an example to a file of your own."""
    screen = Screen()
    example = find_example(name)
    made = destination / example.name if destination.is_dir() else destination
    if made.exists() and not force:
        raise InputError(
            f"{made} already exists",
            expected="a new file",
            got=f"one of {made.stat().st_size} bytes",
            cure=f"give another place, or anabranch examples copy {example.stem} {made} --force",
        )
    if made.suffix != ".py" or not made.parent.is_dir():
        raise InputError(
            f"an example can't be copied to {str(made)!r}",
            expected="an existing folder, or a file in one with a name that ends in .py",
            got=f"no folder {made.parent}" if made.suffix == ".py" else f"the name {made.name!r}",
        )
    try:
        made.write_bytes(example.read_bytes())
    except OSError as error:
        raise InputError(f"{made} can't be written", got=str(error)) from error
    screen.write(f"copied to {made}\n\nTry next:")
    for command in ("check", "run", "simulate"):
        screen.write(f"anabranch {command} {made}", indent=2)
    screen.write(f"python {made}", indent=2)
    return GOOD
