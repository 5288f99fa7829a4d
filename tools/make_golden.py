"""Make the golden savepoints and checkpoints of this release: `python tools/make_golden.py`.

They go to tests/golden/VERSION, which must not be there yet. Later releases read them (docs/versions.md),
so a folder that was released is never made again. Needs Spark.
"""

import shutil
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import anabranch  # noqa: E402 - after the path
from anabranch.microbatch.savepoints import contents  # noqa: E402
from anabranch.reference.sequential import run  # noqa: E402
from anabranch.savepoints.objects import write_snapshot  # noqa: E402
from anabranch.spark import start_session  # noqa: E402
from anabranch.spark.savepoints import creation  # noqa: E402
from tests.golden.folders import PLACE, pack  # noqa: E402
from tests.golden.stories import GOLDEN, Golden  # noqa: E402
from tests.microbatch.streams import Stream  # noqa: E402
from tests.spark.savepoints.test_spark_savepoints import Run  # noqa: E402

MADE_AT = datetime(2026, 1, 1, tzinfo=UTC)
MOST_BYTES = 500_000


def main() -> None:
    """Make the folder of this release."""
    target = ROOT / "tests" / "golden" / anabranch.__version__
    if target.exists():
        sys.exit(f"{target} is there; what was released is not made again. Remove it if it was not")
    if PLACE.exists():
        sys.exit(f"{PLACE} is there; remove it")
    draft = Path(tempfile.mkdtemp()) / "golden"
    try:
        make_references(draft)
        make_with_spark(draft)
    finally:
        shutil.rmtree(PLACE, ignore_errors=True)
    sizes = [file.stat().st_size for file in draft.rglob("*") if file.is_file()]
    if sum(sizes) > MOST_BYTES:
        sys.exit(f"{sum(sizes):,} bytes are too many for a repository; make the stories smaller")
    shutil.move(draft, target)
    print(f"{target}: {len(sizes)} files, {sum(sizes):,} bytes")


def make_references(draft: Path) -> None:
    """Make the savepoints of the reference."""
    for name, story in GOLDEN.items():
        if "reference" in story.runtimes:
            snapshot = run(story.program, story.cut()[0], story.channels).snapshot()
            (draft / "reference").mkdir(parents=True, exist_ok=True)
            write_snapshot(snapshot, story.program, draft / "reference" / name, made_at=MADE_AT)


def make_with_spark(draft: Path) -> None:
    """Make the savepoints and the checkpoints of Spark."""
    session = start_session(
        name="anabranch-golden", ui=False, **{"spark.sql.shuffle.partitions": "2"}
    )
    try:
        for name, story in GOLDEN.items():
            if "spark" in story.runtimes:
                make_query(session, name, story, draft)
    finally:
        session.stop()


def make_query(session: Any, name: str, story: Golden, draft: Path) -> None:
    """Run a story up to its cut, and keep what is there then."""
    shutil.rmtree(PLACE, ignore_errors=True)
    query = Run(session, PLACE, Stream(story.program, story.channels, story.list_items()))
    before, _ = story.cut()
    half = len(before) // 2
    query.add([before[:half], before[half:]])
    query.go(shards=2, columns=story.columns, hot_keys=story.hot_keys)
    (draft / "spark").mkdir(parents=True, exist_ok=True)
    with patch.object(contents, "datetime", SimpleNamespace(now=lambda zone: MADE_AT)):
        creation.create_savepoint(
            draft / "spark" / name, checkpoint=query.places()[1], spark=session
        )
    if story.checkpoint:
        (draft / "checkpoints").mkdir(parents=True, exist_ok=True)
        pack(PLACE, draft / "checkpoints" / f"{name}.tar.gz")


if __name__ == "__main__":
    main()
