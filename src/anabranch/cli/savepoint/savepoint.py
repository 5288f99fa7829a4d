"""`anabranch savepoint`: manage savepoints as folders and archives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import App, Parameter

from anabranch.cli.flags import Json
from anabranch.cli.run.run_display import explain_ledger
from anabranch.cli.terminal.screen import FOUND, GOOD, Screen, count_things
from anabranch.errors import InputError
from anabranch.eventtime.held_back import name_time
from anabranch.savepoints.archives import LIMITS, Limits, export_archive, import_archive
from anabranch.savepoints.collection import SavepointCollection, find_savepoint
from anabranch.savepoints.folders import NoSavepointError, Savepoint, open_savepoint
from anabranch.savepoints.manifest import SavepointError

app = App(
    name="savepoint",
    help="Create, list, verify, export, import, restore and delete savepoints.",
    help_epilogue="",
)

# These commands need Spark, so they are imported when they are called.
app.command(
    "anabranch.cli.savepoint.savepoint_spark:create",
    name="create",
    help="Save the state of a run, embedded or on Spark.",
)
app.command(
    "anabranch.cli.savepoint.savepoint_spark:restore",
    name="restore",
    help="Create a checkpoint that continues from a savepoint.",
)

DEFAULT_FOLDER = Path("savepoints")

Place = Annotated[
    Path, Parameter(help="Folder of the savepoint; FOLDER/latest is the newest in FOLDER.")
]


@app.default
@app.command(name="list")
def show_list(
    folder: Annotated[
        Path, Parameter(help="Folder of savepoints (default savepoints).")
    ] = DEFAULT_FOLDER,
    /,
    *,
    json: Json = False,
) -> int:
    """List the savepoints in a folder, the oldest first."""
    screen = Screen(quiet=json)
    found, broken = SavepointCollection(folder).list_savepoints()
    if json:
        errors = [{"name": name, "error": error.what} for name, error in broken.items()]
        screen.print_json([*map(_summarize, found), *errors])
        return FOUND if broken else GOOD
    if found:
        screen.show_table(
            ("savepoint", "made", "program", "watermark", ">rows", ">bytes"),
            [
                (
                    one.path.name,
                    _name_date(one),
                    one.manifest.program,
                    name_time(one.manifest.watermark),
                    f"{_count_rows(one):,}",
                    f"{_count_bytes(one):,}",
                )
                for one in found
            ],
        )
    elif not broken:
        screen.print("No savepoints found.")
    for name, error in broken.items():
        screen.write(f"  {name}: {error.what}", style="red")
    return FOUND if broken else GOOD


@app.command
def show(place: Place, /, *, json: Json = False) -> int:
    """Show a savepoint: its program, its watermarks, its ledger and its tables."""
    screen = Screen(quiet=json)
    savepoint = open_savepoint(find_savepoint(place), verify=False)
    manifest = savepoint.manifest
    if json:
        screen.print_json({"path": str(savepoint.path), **msgspec.to_builtins(manifest)})
        return GOOD
    screen.write(
        f"savepoint {savepoint.path.name}, made {_name_date(savepoint)} as {manifest.name}"
    )
    screen.write(f"program   {manifest.program}, run by {manifest.runtime}")
    screen.write(f"id        {manifest.id[:16]}")
    screen.write(f"watermark  {name_time(manifest.watermark)}")
    screen.write(f"ledger    {explain_ledger(manifest.list_ledger())}\n")
    if manifest.standings:
        screen.show_table(
            ("channel", ">watermark", ">largest time", ">last seq"),
            [
                (name, name_time(one.watermark), _or_nothing(one.largest), _or_nothing(one.last))
                for name, one in manifest.standings.items()
            ],
        )
        screen.print()
    tables: dict[str, list[Any]] = {}
    for path, record in manifest.files.items():
        tables.setdefault(path.rpartition("/")[0], []).append(record)
    screen.show_table(
        ("folder", ">files", ">rows", ">bytes"),
        [
            (
                folder,
                len(records),
                f"{sum(record.rows or 0 for record in records):,}",
                f"{sum(record.bytes for record in records):,}",
            )
            for folder, records in tables.items()
        ],
    )
    return GOOD


@app.command
def verify(
    places: Annotated[list[Path], Parameter(help="Folders of the savepoints.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Read every file of savepoints, and list those that are changed, missing or extra."""
    screen = Screen(quiet=json)
    results: list[dict[str, Any]] = []
    for place in places:
        try:
            savepoint = open_savepoint(find_savepoint(place))
        except NoSavepointError:
            raise
        except SavepointError as error:
            found = {name: getattr(error, name, ()) for name in ("changed", "missing", "extra")}
            results.append({"path": str(place), "good": False, "error": error.what, **found})
            screen.write(str(error), style="red")
        else:
            files = len(savepoint.manifest.files)
            size = _count_bytes(savepoint)
            results.append({"path": str(place), "good": True, "files": files, "bytes": size})
            screen.write(
                f"{savepoint.path}: {count_things(files, 'file')}, {size:,} bytes, unchanged"
            )
    if json:
        screen.print_json(results)
    return GOOD if all(result["good"] for result in results) else FOUND


@app.command
def export(
    place: Place,
    file: Annotated[Path, Parameter(help="Archive to write: .tar.gz or .zip.")],
    /,
    *,
    json: Json = False,
) -> int:
    """Write a savepoint to an archive."""
    screen = Screen(quiet=json)
    written = export_archive(open_savepoint(find_savepoint(place), verify=False), file)
    size = written.stat().st_size
    screen.write(f"written   {written}, {size:,} bytes")
    if json:
        screen.print_json({"file": str(written), "bytes": size})
    return GOOD


@app.command(name="import")
def unpack(
    file: Annotated[Path, Parameter(help="Archive to read: .tar.gz or .zip.")],
    place: Annotated[Path, Parameter(help="Folder to create for the savepoint.")],
    /,
    *,
    most_files: Annotated[
        int, Parameter(help=f"Maximum number of files in the archive (default {LIMITS.files}).")
    ] = LIMITS.files,
    most_bytes: Annotated[
        int,
        Parameter(help=f"Maximum size of the unpacked archive, in bytes (default {LIMITS.bytes})."),
    ] = LIMITS.bytes,
    most_ratio: Annotated[
        int, Parameter(help=f"Maximum ratio of unpacked to packed size (default {LIMITS.ratio}).")
    ] = LIMITS.ratio,
    json: Json = False,
) -> int:
    """Unpack an archive from any origin; refuse one that is not a complete savepoint."""
    screen = Screen(quiet=json)
    limits = Limits(most_files, most_bytes, most_ratio, LIMITS.free_bytes)
    savepoint = open_savepoint(import_archive(file, place, limits), verify=False)
    screen.write(f"savepoint {savepoint.path}, of {savepoint.manifest.program}")
    if json:
        screen.print_json(_summarize(savepoint))
    return GOOD


@app.command
def delete(
    place: Annotated[
        Path, Parameter(help="Folder of the savepoint; with --keep, a folder of savepoints.")
    ],
    /,
    *,
    keep: Annotated[
        int | None,
        Parameter(help="Number of newest savepoints to keep; delete the others in the folder."),
    ] = None,
    json: Json = False,
) -> int:
    """Delete a savepoint, or all old ones in a folder. Other files and folders are kept."""
    screen = Screen(quiet=json)
    if keep is not None:
        gone = [str(place / name) for name in SavepointCollection(place).keep(keep)]
    else:
        if place.name == "latest":
            raise InputError(
                "a savepoint can't be deleted as latest", expected="the name of the savepoint"
            )
        gone = [str(SavepointCollection(place.parent).delete(place.name))]
    for path in gone:
        screen.write(f"deleted   {path}")
    if json:
        screen.print_json(gone)
    elif not gone:
        screen.print("Nothing to delete.")
    return GOOD


def _summarize(savepoint: Savepoint) -> dict[str, Any]:
    manifest = savepoint.manifest
    return {
        "name": savepoint.path.name,
        "path": str(savepoint.path),
        "id": manifest.id,
        "made_at": manifest.made_at,
        "program": manifest.program,
        "runtime": manifest.runtime,
        "watermark": name_time(manifest.watermark),
        "rows": _count_rows(savepoint),
        "bytes": _count_bytes(savepoint),
    }


def _count_rows(savepoint: Savepoint) -> int:
    return sum(record.rows or 0 for record in savepoint.manifest.files.values())


def _count_bytes(savepoint: Savepoint) -> int:
    return sum(record.bytes for record in savepoint.manifest.files.values())


def _name_date(savepoint: Savepoint) -> str:
    return savepoint.manifest.made_at[:16].replace("T", " ")


def _or_nothing(number: int | None) -> str:
    return "" if number is None else str(number)
