"""Inputs: a workload's events as files, written once and kept in the cache."""

import json
import os
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

from bench.peers.workloads import Drawn, Input, Workload, draw_input, list_asked

Form = Literal["parquet", "csv", "csv-header"]
_EPOCH = 1_700_000_000


def prepare_input(cache: Path, workload: Workload, forms: set[Form]) -> Path:
    """Return the folder of an input, after writing what is not there yet."""
    folder = cache / "inputs" / workload.label
    missing = [form for form in sorted({"parquet", *forms}) if not (folder / form).is_dir()]
    if missing:
        drawn = draw_input(workload)
        folder.mkdir(parents=True, exist_ok=True)
        for form in missing:
            draft = folder / f".{form}"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir()
            if form == "parquet":
                _write_parquet(draft, drawn)
            else:
                _write_csv(draft, drawn, header=form == "csv-header")
            # A run that is cut off must not leave half an input behind.
            draft.rename(folder / form)
        text = json.dumps(describe_input(workload, drawn), indent=2)
        (folder / "manifest.json").write_text(text + "\n", encoding="utf-8")
    return folder


def describe_input(workload: Workload, drawn: Input) -> dict[str, Any]:
    """Return what a job has to know of its input."""
    counted = [channel for channel in drawn.channels if channel.name != "asks"]
    slices = sum(_count_slices(channel, drawn) for channel in counted)
    return {
        "workload": workload.name,
        "kind": workload.kind,
        "n": workload.n,
        "keys": workload.keys,
        "loaded": workload.loaded,
        "size": workload.size,
        "every": workload.every,
        "asked_step": int(np.diff(list_asked(workload)[:2], append=1)[0]),
        "slices": [int(rows) for rows in slices],
        "channels": [channel.name for channel in counted],
        "end": max(int(channel.columns["time"][-1]) for channel in counted),
    }


def _cut(channel: Drawn, drawn: Input) -> list[tuple[int, int]]:
    places = np.searchsorted(channel.columns["time"], drawn.cuts, side="right")
    edges = [0, *(int(place) for place in places), len(channel.columns["time"])]
    return list(pairwise(edges))


def _count_slices(channel: Drawn, drawn: Input) -> Any:
    return np.array([stop - start for start, stop in _cut(channel, drawn)])


def _write_parquet(folder: Path, drawn: Input) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for channel in drawn.channels:
        columns = dict(channel.columns)
        is_heartbeat = columns.pop("is_heartbeat", None)
        table = pa.table(columns)
        if is_heartbeat is not None:
            beats = pa.array(columns["time"], mask=~is_heartbeat)
            table = table.append_column("heartbeat", beats)
        (folder / channel.name).mkdir()
        for number, (start, stop) in enumerate(_cut(channel, drawn)):
            file = folder / channel.name / f"{number:04}.parquet"
            pq.write_table(table.slice(start, stop - start), file, compression="snappy")
            # Spark's file source goes by the time of change.
            os.utime(file, (_EPOCH + number, _EPOCH + number))


def _write_csv(folder: Path, drawn: Input, *, header: bool) -> None:
    import pyarrow as pa
    import pyarrow.csv as pc

    options = pc.WriteOptions(include_header=header, quoting_style="none")
    for channel in drawn.channels:
        if channel.name == "asks":
            continue
        (folder / channel.name).mkdir()
        columns = {name: column for name, column in channel.columns.items() if name != "seq"}
        pc.write_csv(pa.table(columns), folder / channel.name / "0000.csv", options)
