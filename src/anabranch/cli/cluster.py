"""`anabranch run --master`: the same program on Spark, and what it published.

Files are one bounded input: the reference reads and numbers their rows, and Spark folds them as a
batch. A folder is a stream: Spark reads its files itself, as many as there are, and remembers them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from anabranch.cli.material import Material, declare_sources, load_items
from anabranch.cli.screen import Screen
from anabranch.errors import AnabranchError, InputError
from anabranch.eventtime.disorder import Estimated
from anabranch.eventtime.ledger import Ledger
from anabranch.eventtime.sources import NEVER, Source
from anabranch.eventtime.tolerance import Tolerance
from anabranch.model.events import FOREVER
from anabranch.model.program import Program
from anabranch.plan.wiring import Wiring, wire
from anabranch.reference.files import read_items
from anabranch.reference.rows import STANDARD, find_format, read_rows
from anabranch.savepoints.folders import NoSavepointError, Savepoint, open_savepoint
from anabranch.savepoints.shelf import find_savepoint
from anabranch.speculation.spoken import Amount, Mode

SHARDS = 16

Frame = Any
Session = Any
"""Spark's. Only `anabranch.spark` imports PySpark, for types too."""


@Parameter(name="*")
@dataclass(frozen=True)
class Place:
    """Where to run, as the flags say it."""

    master: Annotated[
        str | None,
        Parameter(help="Run on Spark: local[2], spark://host:7077. --input may then be a folder."),
    ] = None
    spark: Annotated[bool, Parameter(help="Run on Spark, here, on all cores.")] = False
    checkpoint: Annotated[
        str | None,
        Parameter(help="On Spark: where a followed folder's state is; OUTPUT/_checkpoint."),
    ] = None
    shards: Annotated[
        int | None,
        Parameter(help="On Spark: into how many shards to cut; 16. Fixed for a checkpoint."),
    ] = None
    files_per_batch: Annotated[
        int | None, Parameter(help="On Spark: how many files of a folder make a batch; 1.")
    ] = None
    max_record_bytes: Annotated[
        int | None,
        Parameter(help="On Spark: how large an event may be, or else it is rejected; 1048576."),
    ] = None

    idle_after_s: Annotated[
        float | None,
        Parameter(
            help="On Spark: how many seconds a silent source of a followed folder is waited for. For "
            "ever, unless a source says otherwise."
        ),
    ] = None

    @property
    def on_spark(self) -> bool:
        """Say whether to run on Spark."""
        return self.master is not None or self.spark


HERE = Place()
"""In this process, without Spark."""


@dataclass(frozen=True)
class Order:
    """What a user asked for: where to run, on what, and where to put it."""

    place: Place
    inputs: tuple[str, ...] = ()
    output: str | None = None
    format: Literal["json", "parquet"] = "parquet"
    lateness: int | Estimated | None = None
    strict: bool = False
    unbounded: bool = False
    most_rejected: Tolerance | None = None
    mode: Mode = "settled"

    @property
    def master(self) -> str:
        """Return Spark's master."""
        return self.place.master or "local[*]"

    @property
    def checkpoint(self) -> str | None:
        """Return where the state is kept, if the user says so."""
        return self.place.checkpoint

    @property
    def shards(self) -> int:
        """Return the number of shards."""
        return SHARDS if self.place.shards is None else self.place.shards

    @property
    def files_per_batch(self) -> int:
        """Return how many files make a batch."""
        return 1 if self.place.files_per_batch is None else self.place.files_per_batch

    @property
    def folder(self) -> str | None:
        """Return the folder to be followed, if the input is one."""
        return next((name for name in self.inputs if Path(name).is_dir()), None)


@dataclass(frozen=True)
class Report:
    """What Spark published: a page of each kind of row, and how many there are."""

    wiring: Wiring
    ledger: Ledger
    frontiers: dict[str, int]
    outputs: list[dict[str, Any]]
    late: list[dict[str, Any]]
    rejected: list[dict[str, Any]]
    amount: Amount
    ended: bool
    mode: Mode

    def describe(self) -> dict[str, Any]:
        """Return the report as a JSON document, with the names that the reference uses."""
        return {
            "outputs": self.outputs,
            **describe_amount(self.amount, self.mode),
            "ledger": self.ledger._asdict(),
            "late": [_flatten(late) for late in self.late],
            "rejected": self.rejected,
            "frontiers": self.frontiers,
            "wiring": {
                "way": self.wiring.way,
                "shards": self.wiring.shards,
                "reasons": list(self.wiring.reasons),
            },
        }


def run_on_spark(
    screen: Screen, material: Material, order: Order, page: int | None, start: str | None = None
) -> Report:
    """Run a program on Spark, and return the first `page` rows of each kind, or all.

    With a savepoint to `start` from, that is restored first, unless its checkpoint is there already.
    """
    savepoint = None if start is None else find_start(order, start)
    if savepoint is None:
        order = keep_shards(order)
        check_order(order)
    else:
        order = prepare_restore(material, order, savepoint)
    from anabranch.spark.interruption import end_on_signals
    from anabranch.spark.session import start_session

    sources, items = _take_stock(material, order)
    with ExitStack() as scope:
        # A JVM that was there before may have started elsewhere.
        folder = Path(order.output or scope.enter_context(TemporaryDirectory())).absolute()
        scope.enter_context(end_on_signals())
        with screen.wait("starting Spark"):
            session = start_session("anabranch", order.master)
        if order.folder is None:
            _run_batch(screen, session, material, order, sources, items, folder)
        else:
            if savepoint is not None:
                feed = _open_folder(session, material, order, sources)
                restore_here(screen, material, order, savepoint, feed)
            _run_stream(screen, session, material, order, sources, folder)
        wiring = _wire(material.program, order)
        return _read_report(session, order, wiring, sources, folder, page)


def describe_amount(amount: Amount, mode: Mode) -> dict[str, Any]:
    """Return how much a speculative run said in vain; a settled one says nothing in vain."""
    if mode == "settled":
        return {}
    return {"amount": {**amount._asdict(), "ratio": round(amount.ratio, 4)}}


def _wire(program: Program, order: Order) -> Wiring:
    if order.mode == "settled":
        return wire(program, order.shards)
    from anabranch.spark.speculation import wire_in_order

    return wire_in_order(program, order.shards)


def refuse_flags(place: Place) -> None:
    """Refuse flags that mean nothing without Spark."""
    for name in ("checkpoint", "shards", "files_per_batch", "max_record_bytes", "idle_after_s"):
        value = getattr(place, name)
        if value is not None:
            flag = f"--{name.replace('_', '-')}"
            raise InputError(
                f"{flag} is for Spark",
                expected="it together with --master or --spark",
                got=f"{flag} {value}",
            )


def check_order(order: Order) -> None:
    """Refuse what can't be run, before anything starts."""
    check_flags(order)
    _check_output(order)


def check_flags(order: Order) -> None:
    """Refuse flags that can't be, or not together."""
    if order.unbounded:
        raise InputError(
            "on Spark, files end and a folder does not",
            expected="--input DIR instead of --unbounded",
            got="--unbounded",
        )
    if order.shards < 1:
        raise InputError(
            "--shards is not a number of shards", expected="1 or more", got=str(order.shards)
        )
    if order.files_per_batch < 1:
        raise InputError(
            "--files-per-batch is not a number of files",
            expected="1 or more",
            got=str(order.files_per_batch),
        )
    if order.place.max_record_bytes is not None and order.place.max_record_bytes < 1:
        raise InputError(
            "--max-record-bytes is not a number of bytes",
            expected="1 or more",
            got=str(order.place.max_record_bytes),
        )
    if order.output == STANDARD or (order.output and Path(order.output).is_file()):
        raise InputError(
            "on Spark, outputs go to a folder",
            expected="--output DIR, which gets a folder for each batch",
            got="standard output" if order.output == STANDARD else f"the file {order.output!r}",
        )
    if order.folder is not None and len(order.inputs) > 1:
        raise InputError(
            "a folder is followed alone",
            expected="one --input DIR, or one --input FILE or more",
            got=", ".join(order.inputs),
            cure="put the files into the folder",
        )
    if order.folder is None and order.checkpoint is not None:
        raise InputError(
            "--checkpoint is for a stream that goes on",
            expected="--input DIR, a folder to which files are added",
            got="files, which are run once and to their end",
        )
    if order.folder is None and order.place.idle_after_s is not None:
        raise InputError(
            "--idle-after-s is for a stream that goes on",
            expected="--input DIR, a folder to which files are added",
            got="files, of which nobody is silent: all of them end",
        )


def _check_output(order: Order) -> None:
    if order.output is None or not any(Path(order.output).glob("batch=*")):
        return
    if order.folder is None:
        raise InputError(
            f"{order.output!r} already holds the batches of a run",
            expected="a new folder",
            got="a folder with batch=…",
            cure="another --output; what was published is never overwritten",
        )
    if not find_checkpoint(order, Path(order.output)).exists():
        raise InputError(
            f"{order.output!r} holds the batches of a run with another checkpoint",
            expected="the --checkpoint that made them, or a new --output",
            got=f"no checkpoint at {find_checkpoint(order, Path(order.output))}",
            cure="a new run would count its batches from 0, and they would be taken for replays",
        )


def find_checkpoint(order: Order, folder: Path) -> Path:
    """Return where the state of a run is kept."""
    # Spark does not take a name with an underscore for data.
    return Path(order.checkpoint) if order.checkpoint else folder / "_checkpoint"


def keep_shards(order: Order) -> Order:
    """Take the number of shards from a checkpoint that was restored or rescaled, if nobody says one."""
    if order.folder is None or order.output is None or order.place.shards is not None:
        return order
    from anabranch.spark.pairing import read_begin

    begin = read_begin(find_checkpoint(order, Path(order.output)))
    return replace(order, place=replace(order.place, shards=begin.shards))


def find_start(order: Order, start: str) -> Savepoint | None:
    """Return the savepoint that a run has to begin with; None if its checkpoint has begun with it."""
    if order.folder is None or order.output is None:
        raise InputError(
            "on Spark, a savepoint goes on as a stream",
            expected="--input DIR, the folder that is followed, and --output DIR",
            got="no --output" if order.folder else "no folder as --input",
        )
    from anabranch.spark.pairing import read_begin

    checkpoint = find_checkpoint(order, Path(order.output))
    if not (checkpoint / "commits").is_dir():
        return open_savepoint(find_savepoint(start), verify=False)
    begun = read_begin(checkpoint).savepoint
    if begun is None:
        raise InputError(
            f"{checkpoint} did not begin with a savepoint",
            expected="a new --output, or one that began with it",
            got=f"--from {start}",
            cure="without --from it goes on where it is",
        )
    try:
        wanted = open_savepoint(find_savepoint(start), verify=False).manifest.id
    except NoSavepointError:
        return None  # It is not needed any more.
    if wanted != begun:
        raise InputError(
            f"{checkpoint} began with another savepoint",
            expected=begun[:16],
            got=f"{wanted[:16]}, which is {start}",
            cure="a new --output; or without --from it goes on where it is",
        )
    return None


def prepare_restore(
    material: Material, order: Order, savepoint: Savepoint, partitions: int | None = None
) -> Order:
    """Refuse what can't go on from a savepoint before Java starts; return with how many shards it would."""
    made_by = savepoint.manifest.fingerprint
    if order.place.shards is None and made_by.get("shards", "").isdecimal():
        order = replace(order, place=replace(order.place, shards=int(made_by["shards"])))
    check_flags(order)
    from anabranch.spark.restores import check_restore

    assert order.output is not None
    checkpoint = find_checkpoint(order, Path(order.output))
    check_restore(
        savepoint, material.program, order.output, checkpoint, partitions=partitions,
        format=order.format,
    )  # fmt: skip
    return order


def restore_here(
    screen: Screen,
    material: Material,
    order: Order,
    savepoint: Savepoint,
    feed: Any,
    partitions: int | None = None,
) -> None:
    """Make the checkpoint of a run out of a savepoint."""
    from anabranch.spark.intake import MAX_RECORD_BYTES
    from anabranch.spark.restores import restore_savepoint

    assert order.output is not None
    with screen.wait("restoring"):
        restore_savepoint(
            savepoint.path,
            material.program,
            [feed],
            order.output,
            find_checkpoint(order, Path(order.output)),
            shards=order.shards,
            partitions=partitions,
            format=order.format,
            max_record_bytes=order.place.max_record_bytes or MAX_RECORD_BYTES,
        )


def _take_stock(material: Material, order: Order) -> tuple[tuple[Source, ...], tuple[Any, ...]]:
    """Return every source, and the items if they are a bounded input."""
    from anabranch.spark.frames import derive_types

    derive_types(material.program)  # Refuse a type before Java starts, not after it.
    sources, items = _list_sources(material, order)
    if order.place.idle_after_s is not None:
        sources = tuple(replace(s, idle_after_s=order.place.idle_after_s) for s in sources)
    return sources, items


def _list_sources(material: Material, order: Order) -> tuple[tuple[Source, ...], tuple[Any, ...]]:
    if order.folder is None:
        items = load_items(material, order.inputs)
        sources = declare_sources(material, items, order.lateness, strict=order.strict)
        return _complete(sources, items), items
    files = list_files(order.folder)
    _find_stream_format(files)
    _check_sequence(material, files)
    if material.sources and order.lateness is None and not order.strict:
        return material.sources, ()
    items = tuple(read_items(material.program, files))
    sources = declare_sources(material, items, order.lateness, strict=order.strict)
    return _complete(sources, items), ()


def _complete(sources: Iterable[Source], items: Iterable[Any]) -> tuple[Source, ...]:
    """Return all sources that bring items; one that nobody declared is in order."""
    found = {source.name: source for source in sources}
    for item in items:
        found.setdefault(item.source, Source(item.source))
    return tuple(found.values())


def list_files(folder: str) -> list[str]:
    """Return the files of events in a folder, by name."""
    files = sorted(
        str(path)
        for path in Path(folder).iterdir()
        if path.is_file() and not path.name.startswith((".", "_"))
    )
    if not files:
        raise InputError(
            f"there are no files in {folder!r}",
            expected="files of events, JSON lines or Parquet",
            got="an empty folder",
        )
    return files


def _find_stream_format(files: list[str]) -> Literal["json", "parquet"]:
    formats = {find_format(file) for file in files}
    if formats == {"jsonl"}:
        return "json"
    if formats == {"parquet"}:
        return "parquet"
    raise InputError(
        "a folder must hold files of one format that Spark can follow",
        expected="JSON lines only, or Parquet only",
        got=", ".join(sorted(formats)),
    )


def _check_sequence(material: Material, files: list[str]) -> None:
    from anabranch.spark.frames import name_columns

    names = name_columns(material.program)
    row = next((row for row in read_rows(files[0]) if not isinstance(row.columns, str)), None)
    if row is None or isinstance(row.columns, str):
        return
    for name in ("source", "seq", "tag"):
        beat = name == "tag" and row.columns.get(names["heartbeat"]) is not None
        if row.columns.get(names[name]) is None and not beat:
            raise InputError(
                f"rows of a stream need a column {names[name]!r}",
                where=f"{files[0]}:{row.number}",
                expected="tag, source and seq in every row: files can't be numbered as they come",
                got=f"only {', '.join(row.columns)}",
                cure=f"add it, or run the files as one input: --input {files[0]}",
            )


def _run_batch(
    screen: Screen,
    session: Session,
    material: Material,
    order: Order,
    sources: tuple[Source, ...],
    items: tuple[Any, ...],
    folder: Path,
) -> None:
    from anabranch.spark.frames import BROKEN, MALFORMED, make_frame, name_columns
    from anabranch.spark.intake import MAX_RECORD_BYTES
    from anabranch.spark.progress import explain_failure
    from anabranch.spark.query import Feed, run
    from anabranch.spark.sinks import publish

    folder.mkdir(parents=True, exist_ok=True)
    names = name_columns(material.program)
    feed = Feed(
        make_frame(session, material.program, items),
        tag_column=names["tag"],
        source_column=names["source"],
        seq=names["seq"],
        heartbeat=names["heartbeat"],
        sources=sources,
        corrupt_column=BROKEN,
        reason_column=MALFORMED,
    )
    most = order.place.max_record_bytes or MAX_RECORD_BYTES
    result = run(
        material.program, [feed], shards=order.shards, mode=order.mode, max_record_bytes=most
    )
    try:
        with screen.wait("running on Spark"):
            publish(result, 0, folder, order.format)
    except AnabranchError:
        raise
    except Exception as error:
        raise explain_failure(str(error)) from error


def _run_stream(
    screen: Screen,
    session: Session,
    material: Material,
    order: Order,
    sources: tuple[Source, ...],
    folder: Path,
) -> None:
    from anabranch.spark.intake import MAX_RECORD_BYTES
    from anabranch.spark.pairing import find_local
    from anabranch.spark.progress import follow
    from anabranch.spark.query import run
    from anabranch.spark.sinks import write_directory

    feed = _open_folder(session, material, order, sources)
    most = order.place.max_record_bytes or MAX_RECORD_BYTES
    result = run(
        material.program, [feed], shards=order.shards, mode=order.mode, max_record_bytes=most
    )
    checkpoint = find_checkpoint(order, folder)
    if find_local(checkpoint) is not None:
        checkpoint = checkpoint.absolute()
    # Without a folder nothing is kept that a user could look at; then it is judged at the end.
    tolerance = None if order.output is None else order.most_rejected
    query = write_directory(
        result, folder, checkpoint, format=order.format, most_rejected=tolerance
    )
    try:
        follow(query, lambda line: _note(screen, line), folder)
    except Exception:
        query.stop()
        raise


def _open_folder(
    session: Session, material: Material, order: Order, sources: tuple[Source, ...]
) -> Any:
    from anabranch.spark.frames import feed_directory

    assert order.folder is not None
    return feed_directory(
        session,
        material.program,
        str(Path(order.folder).absolute()),
        sources,
        format=_find_stream_format(list_files(order.folder)),
        files_per_batch=order.files_per_batch,
    )


@contextmanager
def open_run(screen: Screen, material: Material, order: Order) -> Iterator[tuple[Session, Any]]:
    """Start Spark for a run that follows a folder; yield the session, and the feed of the folder."""
    check_flags(order)
    from anabranch.spark.interruption import end_on_signals
    from anabranch.spark.session import start_session

    sources, _ = _take_stock(material, order)
    with end_on_signals():
        with screen.wait("starting Spark"):
            session = start_session("anabranch", order.master)
        yield session, _open_folder(session, material, order, sources)


def _note(screen: Screen, line: str) -> None:
    """Show a line of progress to whoever looks at a terminal."""
    if screen.err.is_terminal:
        screen.err.print(Text(line, style="dim"), soft_wrap=True)


def _read_report(
    session: Session,
    order: Order,
    wiring: Wiring,
    sources: tuple[Source, ...],
    folder: Path,
    page: int | None,
) -> Report:
    from anabranch.spark.said import COLUMNS
    from anabranch.spark.sinks import find_last_batch, read_frontiers, read_ledger

    last = find_last_batch(folder)
    ended = order.folder is None
    frontiers = {} if last is None else read_frontiers(last).sources
    reader = session.read.schema(f"{COLUMNS}, batch int").format(order.format)
    rows = reader.option("basePath", str(folder)).load(str(folder))
    outputs = rows.where("kind = 'output'")
    counts = outputs.selectExpr("count(*) AS said", "coalesce(sum(op), 0) AS valid").first()
    return Report(
        wiring,
        Ledger() if last is None else read_ledger(last),
        {s.name: FOREVER if ended else frontiers.get(s.name, NEVER) for s in sources},
        [_read_output(row, order.mode) for row in _take(outputs, page, order.mode)],
        [_read_late(row) for row in _take(rows.where("kind = 'late'"), page)],
        [_read_rejected(row) for row in _take(rows.where("kind = 'rejected'"), page)],
        Amount(counts.said, counts.valid),
        ended,
        order.mode,
    )


def _take(rows: Frame, page: int | None, mode: Mode = "settled") -> list[Any]:
    # What is taken back follows what was said: then it matters when that was.
    first = [] if mode == "settled" else ["batch"]
    ordered = rows.orderBy(*first, "time", "source", "seq", "index", "op")
    found = (ordered if page is None else ordered.limit(page)).collect()
    return sorted(found, key=lambda row: [*(row[name] for name in first), *_order_key(row)])


def _order_key(row: Any) -> list[Any]:
    # The id of an output is its order key; what was lost stands in its source's sequence.
    if row.kind == "output":
        return [*json.loads(row.id.rpartition("#")[0]), row["index"], row.op]
    return [row.source or "", -1 if row.seq is None else row.seq, row.id]


def _read_output(row: Any, mode: Mode) -> dict[str, Any]:
    spoken = {} if mode == "settled" else {"op": row.op}
    return {
        **spoken,
        "time": row.time,
        "tag": row.tag,
        "source": row.source,
        "seq": row.seq,
        "index": row["index"],
        "value": json.loads(row.value),
        "event": json.loads(row.event),
    }


def _read_late(row: Any) -> dict[str, Any]:
    return {
        "tag": row.tag,
        "source": row.source,
        "seq": row.seq,
        "event": json.loads(row.event),
        "distance": int(row.reason.partition(" ")[0]),
    }


def _flatten(late: dict[str, Any]) -> dict[str, Any]:
    """Return a late event as a row of a file of events, as the reference shows it."""
    fields = late["event"]
    beside = {name: late[name] for name in ("tag", "source", "seq")}
    clear = {f"@{name}" if name in fields else name: value for name, value in beside.items()}
    return {**fields, **clear, "distance": late["distance"]}


def _read_rejected(row: Any) -> dict[str, Any]:
    # Of an event we know the fields; of a row that is none, only the text.
    raw = row.event if row.tag is None else _read_fields(row.event)
    return {"reason": row.reason, "source": row.source, "seq": row.seq, "raw": raw}


def _read_fields(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # It was cut short.
