"""Every ready-made state, in every layout and on both paths, from files of each format, against plain Python.

The tasks of a batch read files as they do on Spark. Each case takes one format, in turn; with
ANABRANCH_CROSS=all it takes all of them.
"""

import csv
import json
import os
import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anabranch.microbatch.ingest.file_rows import Folder, read_rows, take_in_rows
from anabranch.sources.files import Files, Taken, list_files
from tests.cross.test_states import COLUMN_GAPS, RUNS, prepare, restart
from tests.cross.test_states import read_rows as read_outputs
from tests.microbatch.test_microbatches import READING, Engine, cut

FORMATS = ("json", "csv", "parquet", "arrow")
PAIRS = [(*pair, False) for pair in RUNS] + [(*p, True) for p in RUNS if p not in COLUMN_GAPS]
EVERY = os.environ.get("ANABRANCH_CROSS") == "all"
CASES = [
    (*pair, form)
    for number, pair in enumerate(PAIRS)
    for form in (FORMATS if EVERY else FORMATS[number % 4 : number % 4 + 1])
]


class FileEngine(Engine):
    """An engine whose tasks read files, one each."""

    def __init__(self, program, channels, shards, folder, form, *, columns):
        super().__init__(program, channels, shards, columns=columns)
        self.folder = Folder(Files(folder, format=form), READING)
        self.taken = Taken()

    def batch(self, tasks, clock_ms=None):
        for number, rows in enumerate(tasks, self.taken.files):
            write_file(self.folder.files, f"{number:05}", rows)
        found = list_files(self.folder.files, self.taken)
        assert len(found) == len(tasks)
        envelopes = [
            envelope
            for one in found
            for batches in read_rows(self.job, self.folder, [one])
            for envelope in take_in_rows(self.job, self.folder, batches)
        ]
        self.taken = self.taken.after(found)
        self.batch_of(envelopes, clock_ms)


def write_file(files, name, rows):
    place = f"{files.folder}/{name}.{files.format}"
    columns = list(dict.fromkeys(column for row in rows for column in row))
    if files.format == "json":
        present = ({k: v for k, v in row.items() if v is not None} for row in rows)
        with open(place, "w", encoding="utf-8") as out:
            out.writelines(json.dumps(row) + "\n" for row in present)
    elif files.format == "csv":
        with open(place, "w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
    else:
        table = pa.table({name: [row.get(name) for row in rows] for name in columns})
        if files.format == "parquet":
            pq.write_table(table, place)
        else:
            with pa.OSFile(place, "wb") as file, pa.ipc.new_file(file, table.schema) as out:
                out.write_table(table)


@pytest.mark.parametrize(("case", "layout", "columns", "form"), CASES)
def test_files_of_any_format_give_what_the_oracle_gives(tmp_path, case, layout, columns, form):
    program, channels, items, expected, rng = prepare(case, layout, 1)
    engine = FileEngine(program, channels, rng.choice((1, 3)), tmp_path, form, columns=columns)
    for batch in cut(random.Random(7), items):
        engine.batch(batch)
        restart(engine)
    assert read_outputs(case, layout, engine.emitted) == expected
    assert not [row for row in engine.emitted if row.kind == "rejected"]
    assert engine.ledger.processed == sum(hasattr(item, "data") for item in items)
