"""`anabranch checkpoint`: compare the files of a checkpoint with the manifest of its last batch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from anabranch.cli.flags import Json
from anabranch.cli.terminal.screen import FOUND, GOOD, Screen, count_things
from anabranch.local.checkpoints import is_checkpoint
from anabranch.spark.checkpoint.integrity import FileFinding, IntegrityReport, verify_checkpoint

app = App(name="checkpoint", help="Inspect the checkpoint of a run.", help_epilogue="")

Place = Annotated[
    Path,
    Parameter(help="Checkpoint of a run, or the --output folder that contains it."),
]


@app.command
def verify(place: Place, /, *, json: Json = False) -> int:
    """List the files of a checkpoint that are truncated, changed, missing or extra.

    The query may be running.
    """
    screen = Screen(quiet=json)
    inner = place / "_checkpoint"
    found = inner if inner.is_dir() else place
    report = _verify_embedded(found) if is_checkpoint(found) else verify_checkpoint(found)
    if json:
        screen.print_json(_describe(report))
    else:
        _show(screen, report)
    return FOUND if report.is_damaged else GOOD


def _verify_embedded(checkpoint: Path) -> IntegrityReport:
    """Read all pages of an embedded run's checkpoint, and compare them with their checksums."""
    from anabranch.local.log_views import open_view
    from anabranch.local.page_log import list_logs
    from anabranch.microbatch.store.state_store import DamagedStateError

    name = max(list_logs(checkpoint).items())[1].name
    try:
        with open_view(checkpoint) as view:
            view.read_all()
            return IntegrityReport(checkpoint, view.commit.batch, 1, ())
    except DamagedStateError as error:
        finding = FileFinding(name, "changed", f"{error.what}; {error.where}")
        return IntegrityReport(checkpoint, None, 1, (finding,))


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
