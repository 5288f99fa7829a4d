"""The look-ahead: what the driver can compute about a batch before its files are read.

The footer of a Parquet file contains the range of its times, and markers are few enough to be read while a
batch is planned. So the driver knows the program's watermark after the batch, and the cuts of
its leaves; tasks may fold events when they read them, and send deltas instead of events. All of
it is a prediction. Shards compare it with the chunks of the tasks, and read the files again if it was wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from anabranch.errors import InputError
from anabranch.eventtime.channels import NEVER, fits
from anabranch.eventtime.joining import Taking, join_channels
from anabranch.microbatch.exchange.envelopes import Chunk
from anabranch.microbatch.ingest.channel_verdicts import Standing, advance
from anabranch.microbatch.ingest.file_rows import Folder, list_columns
from anabranch.microbatch.ingest.row_reader import Reading
from anabranch.microbatch.job.job import Job
from anabranch.model.events import FOREVER, EventType
from anabranch.model.values.event_times import to_microseconds
from anabranch.sources.arrow_tables import list_values
from anabranch.sources.files import ROW_BITS, Found, read_file

Cut = tuple[int, int]
"""A cut of leaves: the time of a marker, and the rank of its type."""

SEEN_AHEAD = "seen_ahead"
"""The field of what is known in the offsets of `Files`; those of frames have none."""

MOST_WAITING = 10_000
"""Limit of the cuts beyond the watermark that are stored in the offsets of a query."""

_FEWEST_EVENTS = 16
"""With fewer events per segment, deltas would be no smaller than events."""


class LookAheadState(NamedTuple):
    """The look-ahead after a batch, stored in the query's offsets.

    `cuts` are beyond the program's watermark. If they were too many to be read or stored, `blind` is the
    last of them: there is no look-ahead until the watermark has passed it. `announced` are channels that
    join with the next batch, as in shards.
    """

    standings: dict[str, Standing]
    cuts: tuple[Cut, ...] = ()
    blind: int = NEVER
    announced: tuple[str, ...] = ()

    @property
    def watermark(self) -> int:
        """Return the watermark of the program."""
        return min((standing.watermark for standing in self.standings.values()), default=NEVER)

    def write(self) -> dict[str, Any]:
        """Return the look-ahead as JSON values."""
        return {
            "standings": {name: list(standing) for name, standing in self.standings.items()},
            "cuts": [list(cut) for cut in self.cuts],
            "blind": self.blind,
            "announced": list(self.announced),
        }

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> LookAheadState:
        """Return the look-ahead that `write` wrote."""
        standings = {name: Standing(*standing) for name, standing in data["standings"].items()}
        cuts = tuple((t, r) for t, r in data["cuts"])
        return cls(standings, cuts, data["blind"], tuple(data.get("announced", ())))


class LookAhead(NamedTuple):
    """The assumptions of tasks: the watermark after the batch, and all cuts up to it, in order.

    From `until` on, there are cuts that have not been read.
    """

    watermark: int
    cuts: tuple[Cut, ...]
    until: int = FOREVER


class LookAheadResult(NamedTuple):
    """The look-ahead of a batch, and for each file, by folder and number, its channel's watermark before it."""

    look_ahead: LookAhead
    before: dict[tuple[int, int], int]


def can_look_ahead(job: Job) -> bool:
    """Return whether a run has a look-ahead, so that leaves are folded early."""
    return (
        job.columns is not None
        and not job.ended
        and bool(job.columns.early)
        and all(
            folder.files.format in ("parquet", "arrow")
            and folder.find_event_type(job) is not None
            and folder.reading.channel_column is None
            for folder in job.folders
        )
        and {folder.reading.channel for folder in job.folders} == set(job.channels)
        # Which channels are idle in a batch depends on its time, which the driver does not know yet.
        and all(channel.idle_after_s is None for channel in job.channels.values())
    )


class LookAheadReader:
    """Computes the look-ahead, folder by folder. Results of a file are cached until the batch is planned."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._folders: tuple[Folder, ...] = job.folders
        assert job.columns is not None
        self._plan = job.columns
        self._seen: dict[tuple[int, Found], _Look] = {}

    def advance(self, seen_ahead: LookAheadState, files: dict[int, list[Found]]) -> LookAheadState:
        """Return the look-ahead after a batch of files."""
        standings = self._follow(seen_ahead, files)[0]
        blind = max([seen_ahead.blind, *self._list_unread(files)[1]])
        after = LookAheadState(
            standings, blind=blind, announced=self._take_part(seen_ahead, files).announced
        )
        watermark = after.watermark
        waiting = tuple(cut for cut in self._list_cuts(seen_ahead, files) if cut[0] > watermark)
        if len(waiting) > MOST_WAITING:
            return after._replace(blind=max(after.blind, waiting[-1][0]))
        return after._replace(cuts=waiting)

    def look_ahead(
        self, start: LookAheadState, end: LookAheadState, files: dict[int, list[Found]]
    ) -> LookAheadResult | None:
        """Return the assumptions of tasks; None if an early fold would gain nothing."""
        if start.blind > start.watermark:
            return None
        before = self._follow(start, files)[1]
        watermark = end.watermark
        cuts = tuple(cut for cut in self._list_cuts(start, files) if cut[0] <= watermark)
        rows = sum(self._look(place, found).rows for place in files for found in files[place])
        until = min(self._list_unread(files)[0], default=FOREVER)
        # Batches are planned in order, and never twice in one run of a query.
        self._seen.clear()
        if len(cuts) * _FEWEST_EVENTS > rows:
            return None
        return LookAheadResult(LookAhead(watermark, cuts, until), before)

    def _list_unread(self, files: dict[int, list[Found]]) -> tuple[list[int], list[int]]:
        """Return the first and last times of files with more cuts than are worth reading."""
        looks = [self._look(place, found) for place in files for found in files[place]]
        unread = [look.reach for look in looks if look.unread]
        return [first for first, _ in unread], [last for _, last in unread]

    def _follow(
        self, seen_ahead: LookAheadState, files: dict[int, list[Found]]
    ) -> tuple[dict[str, Standing], dict[tuple[int, int], int]]:
        standings = self._take_part(seen_ahead, files).standings
        before: dict[tuple[int, int], int] = {}
        for place, found in files.items():
            channel = str(self._folders[place].reading.channel)
            if channel not in standings:
                continue
            standing = standings[channel]
            for file in found:
                before[place, file.number] = standing.watermark
                chunk = self._look(place, file).chunk
                if chunk is not None:
                    standing = advance(self._job.channels[channel], standing, chunk)
            standings[channel] = standing
        return standings, before

    def _take_part(self, seen_ahead: LookAheadState, files: dict[int, list[Found]]) -> Taking:
        """Return the channels that take part in a batch, as shards will compute them."""
        known = seen_ahead.standings
        if not known:
            return Taking({name: Standing() for name in self._job.channels}, ())
        present = {
            str(self._folders[place].reading.channel)
            for place, found in files.items()
            if any(self._look(place, file).chunk is not None for file in found)
        }
        if not present:  # There will be no rows, so no shard will run.
            return Taking(dict(known), seen_ahead.announced)
        added = {*self._job.channels} - {*known} - {*seen_ahead.announced}
        return join_channels(known, added, seen_ahead.announced, present)

    def _list_cuts(self, seen_ahead: LookAheadState, files: dict[int, list[Found]]) -> list[Cut]:
        new = (self._look(place, found).cuts for place in files for found in files[place])
        return sorted({*seen_ahead.cuts, *(cut for cuts in new for cut in cuts)})

    def _look(self, place: int, found: Found) -> _Look:
        key = place, found
        if key not in self._seen:
            folder = self._folders[place]
            event_type = folder.find_event_type(self._job)
            assert event_type is not None
            looked = None
            if folder.files.format == "parquet":
                looked = _read_footer(folder, found, folder.reading.time_column(event_type))
            if looked is not None and event_type in self._plan.stops:
                looked = looked._replace(unread=True) if looked.rows > MOST_WAITING else None
            self._seen[key] = (
                self._read_times(folder, found, event_type) if looked is None else looked
            )
        return self._seen[key]

    def _read_times(self, folder: Folder, found: Found, event_type: EventType) -> _Look:
        reading, column = folder.reading, folder.reading.time_column(event_type)
        names = [n for n in (column, reading.heartbeat, reading.seq) if n is not None]
        kinds = list_columns(self._job, reading)
        rows = 0
        ints: dict[str, list[int]] = {name: [] for name in names}
        for batch in read_file(folder.files, found, {name: kinds[name] for name in names}):
            rows += batch.num_rows
            for name in names:
                ints[name] += _list_ints(batch, name, column, reading)
        reach = {name: (min(some), max(some)) for name, some in ints.items() if some}
        rank = self._job.program.ranks[event_type]
        cuts = {(time, rank) for time in ints[column]} if event_type in self._plan.stops else ()
        return _Look(_make_chunk(folder, found, rows, reach, column), rows, tuple(sorted(cuts)))


class _Look(NamedTuple):
    """The expected chunk of a file, its number of rows, its cuts, and the range of its times.

    If there are very many cuts, none is read.
    """

    chunk: Chunk | None
    rows: int
    cuts: tuple[Cut, ...] = ()
    reach: tuple[int, int] = (NEVER, FOREVER)
    unread: bool = False


def _read_footer(folder: Folder, found: Found, time: str) -> _Look | None:
    """Return the data of a footer; None if it lacks the range of the times, which are in column `time`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = Path(folder.files.folder) / found.name
    try:
        footer = pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{path} can't be read as parquet", got=str(error).splitlines()[0]
        ) from error
    reading = folder.reading
    wanted = {name for name in (time, reading.heartbeat, reading.seq) if name is not None}
    reach: dict[str, tuple[int, int]] = {}
    for group in map(footer.row_group, range(footer.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            name, statistics = column.path_in_schema, column.statistics
            if name not in wanted or statistics is None or not statistics.has_min_max:
                continue
            try:
                low, high = _read_int(statistics.min), _read_int(statistics.max)
            except (ValueError, OverflowError):  # A time outside Python's calendar.
                return None
            if low is None or high is None:
                return None
            old = reach.get(name, (low, high))
            reach[name] = min(old[0], low), max(old[1], high)
    if footer.num_rows and (time not in reach or reading.heartbeat in reach):
        return None
    chunk = _make_chunk(folder, found, footer.num_rows, reach, time)
    return _Look(chunk, footer.num_rows, reach=reach.get(time, (NEVER, FOREVER)))


def _make_chunk(
    folder: Folder, found: Found, rows: int, reach: Mapping[str, tuple[int, int]], time: str
) -> Chunk | None:
    reading = folder.reading
    if not rows:
        return None
    first, last = found.number << ROW_BITS, (found.number << ROW_BITS) + rows - 1
    if reading.seq is not None:
        first, last = reach.get(reading.seq, (first, last))
    largest = reach[time][1] if time in reach else None
    if largest is not None and not NEVER < largest < FOREVER:
        largest = None
    promised = None
    if reading.heartbeat is not None and reading.heartbeat in reach:
        promised = min(reach[reading.heartbeat][1], FOREVER)
    return Chunk(str(reading.channel), first, last, largest, promised)


def _read_int(value: Any) -> int | None:
    """Return an integer or a timestamp as the time of an event; None for anything else."""
    if type(value) is int:
        return value
    return to_microseconds(value) if isinstance(value, datetime) else None


def _list_ints(batch: Any, name: str, time: str, reading: Reading) -> list[int]:
    if name not in batch.schema.names:
        return []
    if name == time and reading.heartbeat in batch.schema.names:
        # A row with a heartbeat is not an event, whatever its other columns contain.
        batch = batch.filter(batch.column(reading.heartbeat).is_null())
    found = map(_read_int, list_values(batch.column(name)))
    return [value for value in found if value is not None and fits(value)]
