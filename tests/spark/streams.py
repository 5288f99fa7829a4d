"""Examples as files and frames, for tests on Spark."""

import json
import os
from pathlib import Path

from anabranch import Heartbeat
from anabranch.eventtime.sources import end_sources
from anabranch.model.targets import load, load_module
from anabranch.reference.sequential import run as fold
from anabranch.spark.query import Feed
from anabranch.spark.said import encode_json, identify

SQL_TYPES = {"int": "long", "float": "double", "str": "string", "bool": "boolean"}


class Story:
    """An example, its input, and the answer that every runtime must give."""

    def __init__(self, name: str) -> None:
        self.program = load(f"examples/{name}.py")
        self.module = load_module(f"examples/{name}.py")
        self.sources = self.module.sources
        self.items = end_sources(self.module.events, self.sources)
        self.answer = fold(self.program, self.items, self.sources)

    @property
    def schema(self) -> str:
        types = {"source": "string", "tag": "string", "seq": "long", "heartbeat": "long"}
        for tag in self.program.tags:
            for field, hint in tag.__annotations__.items():
                types[field] = SQL_TYPES[getattr(hint, "__name__", hint)]
        return ", ".join(f"{name} {kind}" for name, kind in types.items())

    def expected(self) -> list[tuple[str, str]]:
        outputs = self.answer.outputs
        return sorted((f"{identify(o.key)}#{o.index}", encode_json(o.value)) for o in outputs)

    def feed(self, frame) -> list[Feed]:
        return [
            Feed(
                frame,
                tag_column="tag",
                source_column="source",
                sources=self.sources,
                seq="seq",
                heartbeat="heartbeat",
            )
        ]

    def write(self, folder: Path, parts: list[list]) -> None:
        """Write parts of the input as files that Spark reads in this order."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, part in enumerate(parts):
            file = folder / f"{number:04}.json"
            file.write_text("".join(json.dumps(to_row(item)) + "\n" for item in part))
            # Spark's file source goes by the time of change.
            os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))

    def cut(self, rng, most: int) -> list[list]:
        """Cut the input into parts, each source in its own order, interleaved at random."""
        queues: dict[str, list] = {}
        for item in self.items:
            queues.setdefault(item.source, []).append(item)
        parts: list[list] = []
        while any(queues.values()):
            last = len(parts) == most - 1
            part = []
            for queue in queues.values():
                size = len(queue) if last else rng.randint(0, len(queue))
                part += queue[:size]
                del queue[:size]
            if part:
                parts.append(part)
        return parts


def to_row(item) -> dict:
    row = {"source": item.source, "seq": item.seq}
    if isinstance(item, Heartbeat):
        return row | {"heartbeat": item.time}
    return row | {"tag": type(item.data).__name__} | item.data._asdict()


def outputs_of(rows) -> list[tuple[str, str]]:
    return sorted((row.id, row.value) for row in rows if row.kind == "output")
