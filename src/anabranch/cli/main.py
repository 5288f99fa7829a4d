"""The command `anabranch`: its subcommands, exit codes and error output.

A subcommand is imported when it is called, so that `--help` and `--version` start fast.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Parameter

from anabranch import __version__
from anabranch.cli.terminal.json_failures import describe_failure
from anabranch.cli.terminal.stop_signals import RECEIVED, raise_on_signals
from anabranch.errors import (
    AnabranchError,
    ConservationError,
    Location,
    ProgramError,
    RejectionError,
    Stopped,
)

GOOD, FOUND, USAGE, INTERRUPTED = 0, 1, 2, 130

RUN_THREAD = "anabranch-run"
"""The name of the thread of an embedded run."""

_VERBS = {
    "check": "Check that a program keeps its laws, by proof or by generated cases.",
    "explain": "Show which events a program can process in parallel, its plan, and why.",
    "run": "Run a program on files of events, here or on Spark.",
    "watermark": "Show the watermark of each channel, and which channel holds the others back.",
    "move": "Let a stopped run continue elsewhere: in this process, on Spark, with other shards.",
    "rescale": "Change the number of shards or partitions of a stopped run.",
    "simulate": "Run a program's plans under many schedules, with crashes and repeated messages.",
    "checkpoint": "Check the files of a checkpoint for damage.",
    "diff": "Compare two files of outputs, up to the order that does not matter.",
    "savepoint": "Create, list, verify, export, import, restore and delete savepoints.",
    "state": "Query, export and serve state, and compare it with a newer program.",
    "examples": "List, show and copy the example programs.",
    "new": "Create a small project: a program, sample events, a test and a README.",
}

_APPS = ("checkpoint", "savepoint", "state", "examples")
"""Subcommands that have subcommands, each an `App`."""

_FOLDERS = ("run", "savepoint", "state")
"""Subcommands of several modules, each in a folder."""

_EPILOGUE = """\
Exit codes: 0 success, 1 a problem was found, 2 wrong usage or input, 130 stopped by Ctrl-C, 143 by
SIGTERM.

Start with: anabranch new NAME, anabranch examples, or python -m anabranch.tour
"""


def build_app() -> App:
    """Return the app with all subcommands."""
    app = App(
        name="anabranch",
        help="Write a stream program as a sequential fold, run it in parallel, get the same answer.",
        help_epilogue=_EPILOGUE,
        default_parameter=Parameter(negative="", show_default=False),
        version=f"anabranch {__version__}",
        help_format="plaintext",
        version_format="plaintext",
        result_action="return_value",
        suppress_keyboard_interrupt=False,
        exit_on_error=False,
        print_error=False,
    )
    for place, (verb, sentence) in enumerate(_VERBS.items()):
        module = f"anabranch.cli.{verb}.{verb}" if verb in _FOLDERS else f"anabranch.cli.{verb}"
        if verb in _APPS:
            app.command(f"{module}:app", name=verb, help=sentence, sort_key=place)
        else:
            path = f"{module}:{verb}"
            app.command(path, name=verb, help=sentence, sort_key=place, help_epilogue="")
    app.register_install_completion_command(help="Install tab completion for your shell.")
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and exit with its exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    raise_on_signals()
    try:
        code = run_command(words)
    except Exception:
        if not RECEIVED:
            raise
        # A library that is interrupted while it is imported may raise an error of its own.
        stopped = AnabranchError("stopped")
        code = _report(stopped, 128 + RECEIVED[0], as_json="--json" in words)
    if RECEIVED and any(thread.name == RUN_THREAD for thread in threading.enumerate()):
        # The batch of an embedded run may take long, and is repeated by the next run.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; errors are printed without a traceback."""
    as_json = "--json" in arguments
    try:
        code = build_app()(list(arguments))
    except AnabranchError as error:
        code = FOUND if isinstance(error, ConservationError | RejectionError) else USAGE
        return _report(error, code, as_json=as_json)
    except CycloptsError as error:
        asked = [word for word in arguments[:1] if word in _VERBS]
        cure = " ".join(["anabranch", *asked, "--help"])
        return _report(AnabranchError(str(error), cure=cure), USAGE, as_json=as_json)
    except KeyboardInterrupt as stop:
        code = 128 + stop.number if isinstance(stop, Stopped) else INTERRUPTED
        return _report(AnabranchError("stopped"), code, as_json=as_json)
    except SystemExit as request:
        if _is_of_rich(request):  # Rich exits when the reader of a pipe has closed it.
            return request.code if isinstance(request.code, int) else GOOD
        return _report(_explain_exit(request), FOUND, as_json=as_json)
    return code if isinstance(code, int) else GOOD


def _report(error: AnabranchError, code: int, *, as_json: bool) -> int:
    """Print an error, with --json also as a document, and return the exit code."""
    notes = getattr(error, "__notes__", ())
    sys.stderr.write("\n".join([str(error), *notes]) + "\n")
    if as_json:
        document = describe_failure(error, code)
        sys.stdout.write(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    return code


def _is_of_rich(request: SystemExit) -> bool:
    frames = traceback.extract_tb(request.__traceback__)
    return "rich" in Path(frames[-1].filename).parts if frames else False


def _explain_exit(request: SystemExit) -> AnabranchError:
    """Return the error for a program that ends its own process."""
    frames = traceback.extract_tb(request.__traceback__)
    where = Location(frames[-1].filename, frames[-1].lineno or 0) if frames else None
    return ProgramError(
        "the program ended the run with sys.exit",
        where=where,
        expected="functions that return",
        got=f"SystemExit: {request.code}",
        cure="return the state unchanged, or raise an exception that describes the problem",
    )


if __name__ == "__main__":
    main()
