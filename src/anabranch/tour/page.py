"""The page: headings, paragraphs, code and rows, on a terminal or into a pipe."""

from __future__ import annotations

import ast
import textwrap
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

WIDTH = 80
"""Maximum width of paragraphs, also on a wider terminal."""


@dataclass
class Page:
    """The console of the tour, and the number of stations printed so far."""

    console: Console
    stations: int = 0

    def open_station(self, title: str, text: str = "") -> None:
        """Print the heading of the next station."""
        self.stations += 1
        self.console.print(f"\n[bold cyan]{self.stations}. {title}[/]")
        if text:
            self.write(text)
        self.console.print()

    def write(self, text: str, *, indent: int = 0) -> None:
        """Print a paragraph."""
        margin = " " * indent
        width = min(self.console.width, WIDTH)
        lines = textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin)
        self.console.print(Text("\n".join(lines)))

    def print_line(self, line: str | Text = "", style: str = "") -> None:
        """Print a line without wrapping or markup."""
        text = Text(line, style) if isinstance(line, str) else line
        self.console.print(text, soft_wrap=True)

    def show_code(self, code: str) -> None:
        """Print Python, in colour on a terminal."""
        if self.console.is_terminal:
            syntax = Syntax(code, "python", theme="ansi_dark", word_wrap=True)
            self.console.print(Padding(syntax, (0, 0, 0, 4)))
        else:
            for line in code.splitlines():
                self.print_line(f"    {line}".rstrip())

    def wait(self, what: str) -> AbstractContextManager[Any]:
        """Show a status, on a terminal."""
        return self.console.status(f"    {what}")


def cut_source(file: Path) -> str:
    """Return the part of an example that is the program: its types and its statement."""
    text = file.read_text(encoding="utf-8")
    parts = [
        ast.get_source_segment(text, node) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef)
        or (
            isinstance(node, ast.Assign)
            and "Program(" in (ast.get_source_segment(text, node) or "")
        )
    ]
    return "\n\n".join(parts)
