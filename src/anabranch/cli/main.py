"""The command `anabranch`: its verbs, its exit codes, and how it fails.

A verb is imported when it is called, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import json
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from cyclopts import App, CycloptsError, Parameter

from anabranch import __version__
from anabranch.cli.json_failures import describe_failure
from anabranch.errors import (
    AnabranchError,
    ConservationError,
    Location,
    ProgramError,
    RejectionError,
    Stopped,
)

GOOD, FOUND, USAGE, INTERRUPTED = 0, 1, 2, 130

_VERBS = {
    "check": "Look for a case that breaks a program's laws.",
    "explain": "Show what a program lets run apart, the plan that follows, and why.",
    "run": "Run a program on files of events, one event after the other.",
    "watermark": "Show how far each channel has come, and who holds the others back.",
    "rescale": "Give a stopped query on Spark another number of shards or partitions.",
    "simulate": "Run a program's plans under many schedules, with crashes and repeats.",
    "checkpoint": "Say whether the files of a checkpoint are as they were left.",
    "diff": "Compare two files of outputs, up to the order that does not matter.",
    "savepoint": "Make, list, check, pack, restore and delete savepoints.",
    "state": "Query state, serve it, and tell what becomes of it in a newer program.",
    "examples": "List, show and copy the example programs.",
    "new": "Write a small project: a program, sample events, a test and a README.",
}

_APPS = ("checkpoint", "savepoint", "state", "examples")
"""Verbs that have verbs of their own, so that each is an app of its own."""

_EPILOGUE = """\
Exit codes: 0 all is well, 1 a problem was found, 2 wrongly called, 130 stopped by Ctrl-C, 143 by
SIGTERM.

Start with: anabranch new NAME, anabranch examples, or python -m anabranch.tour
"""


def build_app() -> App:
    """Put the verbs together."""
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
        if verb in _APPS:
            app.command(f"anabranch.cli.{verb}:app", name=verb, help=sentence, sort_key=place)
        else:
            path = f"anabranch.cli.{verb}:{verb}"
            app.command(path, name=verb, help=sentence, sort_key=place, help_epilogue="")
    app.register_install_completion_command(help="Install tab completion for your shell.")
    return app


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line, and leave with its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # As under nohup.
            signal.signal(number, _stop)
    sys.exit(run_command(sys.argv[1:] if arguments is None else arguments))


def run_command(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; nothing a user does ends in a traceback."""
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
        if _is_of_rich(request):  # How rich leaves when the reader of a pipe has gone.
            return request.code if isinstance(request.code, int) else GOOD
        return _report(_explain_exit(request), FOUND, as_json=as_json)
    return code if isinstance(code, int) else GOOD


def _report(error: AnabranchError, code: int, *, as_json: bool) -> int:
    """Print why a command failed, and with --json the same as a document; return the exit code."""
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
    """Return what to say of a program that ends the process in which it runs."""
    frames = traceback.extract_tb(request.__traceback__)
    where = Location(frames[-1].filename, frames[-1].lineno or 0) if frames else None
    return ProgramError(
        "the program ended the run by sys.exit",
        where=where,
        expected="functions that return",
        got=f"SystemExit: {request.code}",
        cure="return the state as it is, or raise an exception that says what is wrong",
    )


def _stop(number: int, frame: object) -> None:
    raise Stopped(number)


if __name__ == "__main__":
    main()
