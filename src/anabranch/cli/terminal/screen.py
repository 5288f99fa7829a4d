"""Printing on a terminal or into a pipe.

Results go to standard output and everything else to standard error. A pipe gets plain text without
wrapping; with `--json`, one document and nothing else.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

GOOD, FOUND = 0, 1
"""Exit codes of a command that has finished: success, or a problem was found."""

_PIPE_WIDTH = 1000
_PATIENCE_S = 2.0


def open_console(*, stderr: bool = False) -> Console:
    """Return a console on a standard stream; in a pipe it neither colours nor wraps."""
    stream = sys.stderr if stderr else sys.stdout
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(errors="replace")  # A terminal whose encoding lacks ✓ must not fail.
    console = Console(stderr=stderr, highlight=False, emoji=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = _PIPE_WIDTH
    return console


class Screen:
    """Print text and tables, or with `quiet` only a JSON document."""

    def __init__(self, *, quiet: bool = False, stderr: bool = False) -> None:
        self.quiet = quiet
        self.out = open_console(stderr=stderr)
        self.err = open_console(stderr=True)

    def print(self, *parts: Any) -> None:
        """Print a line; strings may contain rich's markup."""
        if not self.quiet:
            self.out.print(*parts, soft_wrap=True)

    def write(self, text: str, *, indent: int = 0, style: str = "") -> None:
        """Print text without interpreting markup."""
        if not self.quiet:
            lines = [(" " * indent + line).rstrip() for line in text.split("\n")]
            self.out.print(Text("\n".join(lines), style=style), soft_wrap=True)

    def show_code(self, code: str, *, indent: int = 2) -> None:
        """Print Python, in colour on a terminal."""
        if self.quiet:
            return
        if self.out.is_terminal:
            from rich.syntax import Syntax

            # Use the terminal's own colours, which suit its background.
            syntax = Syntax(code.rstrip(), "python", theme="ansi_dark", word_wrap=True)
            self.out.print(Padding(syntax, (0, 0, 0, indent)))
        else:
            self.write(code.rstrip(), indent=indent)

    def show_table(self, columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> None:
        """Print a table; a column whose name starts with `>` is aligned to the right."""
        if self.quiet:
            return
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold")
        for column in columns:
            right = column.startswith(">")
            table.add_column(column.lstrip(">"), justify="right" if right else "left")
        for row in rows:
            table.add_row(*(c if isinstance(c, Text) else Text(str(c)) for c in row))
        # Rich pads every line with spaces; strip them.
        with self.out.capture() as capture:
            self.out.print(Padding(table, (0, 0, 0, 2)))
        lines = capture.get().splitlines()
        self.out.file.write("\n".join(line.rstrip() for line in lines) + "\n")

    def print_json(self, document: Any) -> None:
        """Print the document of `--json`."""
        json.dump(document, sys.stdout, indent=2, ensure_ascii=False, default=str)
        sys.stdout.write("\n")

    @contextmanager
    def wait(self, what: str) -> Iterator[None]:
        """Show a status on a terminal during work of unknown length."""
        if self.err.is_terminal:
            with self.err.status(what):
                yield
        else:
            yield

    @contextmanager
    def follow(self, what: str, total: int | None) -> Iterator[Progress]:
        """Show a progress bar if the work takes long; remove it when the work is done."""
        progress = Progress(self.err, what, total)
        try:
            yield progress
        finally:
            progress.close()


class Progress:
    """A progress bar on standard error, shown on a terminal after two seconds."""

    def __init__(self, console: Console, what: str, total: int | None) -> None:
        self.what = what
        self.total = total
        self.done = 0
        self._console = console
        self._since_s = time.monotonic()
        self._bar: Bar | None = None

    def advance(self, count: int = 1, what: str | None = None) -> None:
        """Add to the amount of work done."""
        self.move(self.done + count, what)

    def move(self, done: int, what: str | None = None, total: int | None = None) -> None:
        """Set the amount of work done."""
        self.done = done
        self.what = what or self.what
        self.total = total if total is not None else self.total
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=done, description=self.what, total=self.total)
        elif self._console.is_terminal and time.monotonic() - self._since_s > _PATIENCE_S:
            self._open()

    def _open(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        )
        self._bar.add_task(self.what, total=self.total, completed=self.done)
        self._bar.start()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.stop()


def count_things(count: int, thing: str) -> str:
    """Return a number with its noun.

    >>> count_things(1, "seed"), count_things(1000, "seed"), count_things(2, "crash")
    ('1 seed', '1,000 seeds', '2 crashes')
    """
    plural = f"{thing}es" if thing.endswith(("s", "sh")) else f"{thing}s"
    return f"{count:,} {thing if count == 1 else plural}"
