"""`anabranch checkpoint`: whether the files of a checkpoint are as the last batch left them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from anabranch.cli.flags import Json
from anabranch.cli.screen import FOUND, GOOD, Screen, count_things
from anabranch.spark.checkpoint.integrity import IntegrityReport, verify_checkpoint

app = App(name="checkpoint", help="Look at the checkpoint of a run on Spark.", help_epilogue="")

Place = Annotated[
    Path,
    Parameter(help="The checkpoint of a run on Spark, or the --output folder that it lies in."),
]


@app.command
def verify(place: Place, /, *, json: Json = False) -> int:
    """Say which files are truncated, changed, missing or extra. A query may run meanwhile."""
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
        screen.show_table(("file", "is", ""), rows)
        screen.write("")
        screen.write(f"{count_things(len(rows), 'file')} of {report.checkpoint} damaged.")
        screen.write("Put back a copy of it and of its output folder, or start anew with both new.")
    elif report.batch is None:
        screen.write(
            f"{report.checkpoint} has no manifest, so there is nothing to compare with. "
            "The next start writes one."
        )
    else:
        files = count_things(report.files, "file")
        screen.write(f"{files} of {report.checkpoint}, as batch {report.batch} left them.")


def _describe(report: IntegrityReport) -> dict[str, object]:
    return {
        "checkpoint": str(report.checkpoint),
        "batch": report.batch,
        "files": report.files,
        "damaged": report.is_damaged,
        "findings": [vars(finding) for finding in report.findings],
    }
