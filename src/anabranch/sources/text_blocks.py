"""Blocks of text rows: JSON lines and CSV with typed columns beside each line, read by Arrow.

Arrow's readers accept more than Python does (`-0` as -0.0), fail on a whole block for one bad line, and crash
on some lines. So they only get *plain* lines: those for which a regular expression proves that Arrow and the
row reader return the same values. The typed columns of other rows are null; the row reader parses their lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from anabranch.sources.csv_cells import find_height, open_lines
from anabranch.sources.text_lines import BOM

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Array = np.ndarray[Any, Any]

LINE = "anabranch line"
"""The column with the text of a row."""

ROW = "anabranch row"
"""The column with the place of a row."""

HEADER = b"anabranch header"
"""The key of a block's metadata with the names of CSV columns, as JSON."""

_SAMPLES = 64
"""Lines of a block that are parsed to find the names of columns that are not wanted."""

_INT = r"(?:0|-?[1-9][0-9]{0,17}|-?[1-8][0-9]{18})"
# Only floats that neither underflow nor overflow; -0 is an int in JSON, and so not -0.0.
_FLOAT = (
    r"(?:0|-?[1-9][0-9]{0,30}|-?(?:0|[1-9][0-9]{0,30})"
    r"(?:\.[0-9]+(?:[eE][+-]?[0-9]{1,2})?|[eE][+-]?[0-9]{1,2}))"
)
_TEXT = (
    r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r'|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))*"'
)
_SPACE = r"[ \t]*"
_SCALAR = rf"(?:{_TEXT}|{_FLOAT}|-0|true|false|null)"
_LIST = rf"\[{_SPACE}(?:{_SCALAR}{_SPACE}(?:,{_SPACE}{_SCALAR}{_SPACE})*)?\]"
_PAIR = rf"{_TEXT}{_SPACE}:{_SPACE}(?:{_SCALAR}|{_LIST}){_SPACE}"
_OBJECT = rf"\{{{_SPACE}(?:{_PAIR}(?:,{_SPACE}{_PAIR})*)?\}}"
_JSON = {"int64": _INT, "float64": _FLOAT, "string": _TEXT, "bool": "(?:true|false)"}

_BARE, _QUOTED = r'[^",\r\n\x00]*', r'"(?:[^"\r\n\x00]|"")*"'
_CELL = f"(?:{_BARE}|{_QUOTED})"
_CSV = {"int64": _INT, "float64": _FLOAT, "bool": "(?:true|false|True|False|TRUE|FALSE)"}


def read_json_blocks(data: bytes, wanted: Mapping[str, str], rows: int) -> Iterator[pa.RecordBatch]:
    """Yield JSON lines that are not blank, in blocks, with the wanted columns of the plain ones."""
    import pyarrow.compute as pc

    lines = _cut(data, _find_ends(data, 0))
    if len(lines):
        blank = pc.match_substring_regex(lines, r"^(?:\xef\xbb\xbf)?[ \t\r\n\v\f]*$")
        if pc.any(blank).as_py():
            lines = lines.filter(pc.invert(blank))
    for start in range(0, len(lines), rows):
        yield _read_json_block(lines.slice(start, rows), wanted)


def _read_json_block(block: pa.Array, wanted: Mapping[str, str]) -> pa.RecordBatch:
    import pyarrow as pa

    plain = _find_plain_json(block, wanted)
    try:
        return _assemble(block, wanted, plain, _parse_json)
    except pa.ArrowInvalid:
        # The last of two values of one name counts; Arrow accepts neither, and fails on the block.
        assert plain is not None
        plain = plain & _has_names_once(block, wanted)
    try:
        return _assemble(block, wanted, plain, _parse_json)
    except pa.ArrowInvalid:
        return _assemble(block, wanted, None, _parse_json)


def read_csv_blocks(
    data: bytes, wanted: Mapping[str, str], rows: int, name: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of CSV in blocks, with the wanted columns of the plain ones.

    Each block's metadata contains the names of the columns.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = _find_ends(data, data.startswith(BOM) * len(BOM))
    header, place = open_lines(_Lines(data, bounds), name)
    ends = bounds[place:]
    lines = _cut(data, ends)
    if not len(lines):
        return
    known = {name: kind for name, kind in wanted.items() if name in header}
    known = known if len({*header}) == len(header) else {}
    whole = _matches(lines, _write_row(header, {}))
    inner = _find_inner(lines, _Lines(data, ends), whole, len(header))
    records = _cut(data, np.delete(ends, inner)) if len(inner) else lines
    blank = pc.match_substring_regex(records, r"^\r*\n?$")
    if pc.any(blank).as_py():
        records = records.filter(pc.invert(blank))
    row = _write_row(header, known)

    def parse(block: pa.Array, columns: Mapping[str, str]) -> pa.RecordBatch:
        return _parse_csv(block, columns, header)

    for start in range(0, len(records), rows):
        block = records.slice(start, rows)
        plain = _matches(block, row) & _is_utf8(block) if known else None
        try:
            batch = _assemble(block, known, plain, parse)
        except pa.ArrowInvalid:
            batch = _assemble(block, known, None, parse)
        yield batch.replace_schema_metadata({HEADER: json.dumps(header)})


def read_header(schema: pa.Schema) -> tuple[str, ...] | None:
    """Return the names of the columns of a CSV block; None for other blocks."""
    names = (schema.metadata or {}).get(HEADER)
    return None if names is None else tuple(json.loads(names))


def _find_ends(data: bytes, start: int) -> Array:
    """Return the starts of lines, and the end of the last one."""
    import numpy as np

    ends = np.flatnonzero(np.frombuffer(data, np.uint8, offset=start) == ord("\n")) + 1 + start
    last = [] if len(ends) and ends[-1] == len(data) else [len(data)]
    found = np.concatenate([[start], ends, last]).astype(np.int64)
    return found[:-1] if len(found) > 1 and found[-1] == found[-2] else found


class _Lines(Sequence[bytes]):
    """The lines of a text, each of which is cut when it is read."""

    def __init__(self, data: bytes, ends: Array) -> None:
        self._data = data
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, place: Any) -> Any:
        return self._data[int(self._ends[place]) : int(self._ends[place + 1])]


def _cut(data: bytes, ends: Array) -> pa.Array:
    """Return the parts of a text between offsets, without a copy."""
    import pyarrow as pa

    buffers = [None, pa.py_buffer(ends), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, buffers)


def _matches(lines: pa.Array, pattern: str) -> Array:
    import numpy as np
    import pyarrow.compute as pc

    return np.asarray(pc.match_substring_regex(lines, pattern).to_numpy(zero_copy_only=False))


def _is_utf8(lines: pa.Array) -> Array:
    import numpy as np

    good = np.ones(len(lines), np.bool_)
    try:
        _join(lines).decode()
    except UnicodeDecodeError:
        for place in np.flatnonzero(_matches(lines, r"[\x80-\xff]")).tolist():
            try:
                lines[place].as_py().decode()
            except UnicodeDecodeError:
                good[place] = False
    return good


def _join(lines: pa.Array) -> bytes:
    """Return lines as one text; each but the last has its own line end."""
    import pyarrow as pa

    if len(lines) == 0:
        return b""
    _, offsets, data = lines.buffers()
    bounds = pa.Array.from_buffers(pa.int64(), len(lines) + 1, [None, offsets], offset=lines.offset)
    start, end = bounds[0].as_py(), bounds[len(lines)].as_py()
    return data.slice(start, end - start).to_pybytes()  # type: ignore[no-any-return]


def _assemble(lines: pa.Array, wanted: Mapping[str, str], plain: Array | None, parse: Any) -> Any:
    """Return lines with their typed columns, which are null for lines that are not plain."""
    import numpy as np
    import pyarrow as pa

    columns: dict[str, pa.Array] = {}
    if plain is not None and plain.any():
        whole = bool(plain.all())
        table = parse(lines if whole else lines.filter(pa.array(plain)), wanted)
        if table.num_rows != int(plain.sum()):
            raise AssertionError(f"{int(plain.sum())} plain lines gave {table.num_rows} rows")
        if not whole:
            places = pa.array(np.cumsum(plain) - 1, mask=~plain)
            table = table.take(places)
        columns = {name: table.column(name) for name in wanted}
    return pa.RecordBatch.from_pydict({**columns, LINE: lines})


def _find_plain_json(lines: pa.Array, wanted: Mapping[str, str]) -> Array | None:
    if not wanted or not all(wanted.values()):
        return None
    pairs = [
        rf"{_quote(name)}{_SPACE}:{_SPACE}(?:{_JSON[kind]}|null)" for name, kind in wanted.items()
    ]
    pairs += [
        rf"{_quote(name)}{_SPACE}:{_SPACE}(?:{_SCALAR}|{_LIST}|{_OBJECT})"
        for name in sorted(_sample_names(lines) - {*wanted})
    ]
    pair = rf"(?:{'|'.join(pairs)}){_SPACE}"
    plain = _matches(lines, rf"^{_SPACE}\{{{_SPACE}{pair}(?:,{_SPACE}{pair})*\}}[ \t\r]*\n?$")
    return plain & _is_utf8(lines)


def _has_names_once(lines: pa.Array, wanted: Mapping[str, str]) -> Array:
    """Return which lines contain no wanted name twice."""
    import numpy as np
    import pyarrow.compute as pc

    once = np.ones(len(lines), np.bool_)
    for name in wanted:
        counts = pc.count_substring(lines, json.dumps(name, ensure_ascii=False))
        once &= counts.to_numpy(zero_copy_only=False) <= 1
    return once


def _quote(name: str) -> str:
    """Return a pattern that matches the name of a column, byte by byte."""
    written = json.dumps(name, ensure_ascii=False).encode()
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else rf"\x{byte:02x}" for byte in written
    )


def _sample_names(lines: pa.Array) -> set[str]:
    """Return the names of columns in a sample of lines; a line with another name is not plain."""
    names: set[str] = set()
    step = max(1, len(lines) // _SAMPLES)
    for place in range(0, len(lines), step):
        try:
            found = json.loads(lines[place].as_py().decode())
        except (ValueError, RecursionError):
            continue
        names |= {*found} if isinstance(found, dict) and len(found) < 200 else set()
    return {name for name in names if name.isprintable() and not {*'"\\'} & {*name}}


def _parse_json(lines: pa.Array, wanted: Mapping[str, str]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.json as pj

    data = _join(lines)
    # Without a schema, the reader would parse a text like 2026-01-01 as a time.
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in wanted.items()])
    table = pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    return table.combine_chunks().to_batches()[0]


def _write_row(header: Sequence[str], known: Mapping[str, str]) -> str:
    """Return the pattern of a plain row."""
    cells = []
    for name in header:
        kind = _CSV.get(known.get(name, ""))
        cells.append(_CELL if kind is None else f'(?:{kind}|"{kind}"|"")?')
    return rf"^{','.join(cells)}\r?\n?$"


def _find_inner(lines: pa.Array, texts: Sequence[bytes], whole: Array, width: int) -> list[int]:
    """Return the lines that continue the record before them."""
    import numpy as np

    inner: list[int] = []
    free = 0
    for place in np.flatnonzero(~whole & _matches(lines, '"')).tolist():
        if place >= free:
            free = place + find_height(texts, place, width)
            inner += range(place + 1, free)
    return inner


def _parse_csv(lines: pa.Array, known: Mapping[str, str], header: Sequence[str]) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.csv as pv

    data = _join(lines)
    kinds = {name: pa.type_for_alias(kind) for name, kind in known.items()}
    table = pv.read_csv(
        pa.BufferReader(data),
        pv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=list(header)),
        pv.ParseOptions(newlines_in_values=False),
        pv.ConvertOptions(
            column_types=kinds,
            include_columns=list(known),
            null_values=[""],
            true_values=["true", "True", "TRUE"],
            false_values=["false", "False", "FALSE"],
            strings_can_be_null=True,
        ),
    )
    return table.combine_chunks().to_batches()[0]
