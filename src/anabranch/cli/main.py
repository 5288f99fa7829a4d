"""The command `anabranch`: its verbs, its exit codes, and how it fails.

A verb is imported when it is called, so that `--help` and `--version` answer at once.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError, Parameter

from anabranch import __version__
from anabranch.errors import AnabranchError, ConservationError, RejectionError, Stopped

GOOD, FOUND, USAGE, INTERRUPTED = 0, 1, 2, 130

_VERBS = {
    "check": "Look for a case that breaks a program's laws.",
    "explain": "Show what a program lets run apart, the plan that follows, and why.",
    "run": "Run a program on files of events, one event after the other.",
    "frontier": "Show how far each source has come, and who holds the others back.",
    "rescale": "Give a stopped query on Spark another number of shards or partitions.",
    "simulate": "Run a program's plans under many schedules, with crashes and repeats.",
    "checkpoint": "Say whether the files of a checkpoint are as they were left.",
    "diff": "Compare two files of outputs, up to the order that does not matter.",
    "savepoint": "Make, list, check, pack, restore and delete savepoints.",
    "state": "Query state, serve it, and tell what becomes of it in a newer program.",
    "examples": "List, show and copy the example programs.",
}

_APPS = ("checkpoint", "savepoint", "state", "examples")
"""Verbs that have verbs of their own, so that each is an app of its own."""

_EPILOGUE = """\
Exit codes: 0 all is well, 1 a problem was found, 2 wrongly called, 130 stopped by Ctrl-C, 143 by
SIGTERM.

Start with: anabranch examples, or python -m anabranch.tour
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
    try:
        code = build_app()(list(arguments))
    except AnabranchError as error:
        sys.stderr.write(f"{error}\n")
        return FOUND if isinstance(error, ConservationError | RejectionError) else USAGE
    except CycloptsError as error:
        asked = [word for word in arguments[:1] if word in _VERBS]
        sys.stderr.write(f"{error}\n  to do:    {' '.join(['anabranch', *asked, '--help'])}\n")
        return USAGE
    except KeyboardInterrupt as stop:
        sys.stderr.write("stopped\n")
        return 128 + stop.number if isinstance(stop, Stopped) else INTERRUPTED
    except SystemExit as request:  # How rich leaves when the reader of a pipe has gone.
        code = request.code
    return code if isinstance(code, int) else GOOD


def _stop(number: int, frame: object) -> None:
    raise Stopped(number)


if __name__ == "__main__":
    main()
