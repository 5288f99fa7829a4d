"""`anabranch checkpoint`: compare the files of a checkpoint with the manifest of its last batch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from anabranch.cli.flags import Json
from anabranch.cli.screen import FOUND, GOOD, Screen, count_things
from anabranch.spark.checkpoint.integrity import IntegrityReport, verify_checkpoint

app = App(name="checkpoint", help="Inspect the checkpoint of a run on Spark.", help_epilogue="")

Place = Annotated[
    Path,
    Parameter(help="Checkpoint of a run on Spark, or the --output folder that contains it."),
]


@app.command
def verify(place: Place, /, *, json: Json = False) -> int:
    """List the files of a checkpoint that are truncated, changed, missing or extra.

    The query may be running.
    """
    screen = Screen(quiet=json)
    inner = place / "_checkpoint"
    report = verify_checkpoint(inner if inner.is_dir() else place)
    if json:
        screen.print_json(_describe(report))
    else:
        _show(screen, report)
    return FOUND if report.is_damaged else GOOD


def _show(screen: Screen, report: IntegrityReport) -> None:
    if report.is_damaged:
        rows = [(finding.file, finding.problem, finding.detail) for finding in report.findings]
        screen.show_table(("file", "problem", ""), rows)
        screen.write("")
        screen.write(f"{count_things(len(rows), 'file')} of {report.checkpoint} damaged.")
        screen.write(
            "Restore a backup of the checkpoint and of its output folder, or start with new folders."
        )
    elif report.batch is None:
        screen.write(
            f"{report.checkpoint} has no manifest to compare its files with. "
            "The next start of the query writes one."
        )
    else:
        files = count_things(report.files, "file")
        screen.write(f"{files} of {report.checkpoint} unchanged since batch {report.batch}.")


def _describe(report: IntegrityReport) -> dict[str, object]:
    return {
        "checkpoint": str(report.checkpoint),
        "batch": report.batch,
        "files": report.files,
        "damaged": report.is_damaged,
        "findings": [vars(finding) for finding in report.findings],
    }
