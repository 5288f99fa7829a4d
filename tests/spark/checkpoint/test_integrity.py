"""The manifest of a checkpoint: every damage is named, and nothing that Spark does is one; no Spark is needed.

`Spark` here writes the files that Spark writes, in its order, and removes what it removes. The real one is in
tests/faults/test_corruption.py.
"""

import json
import random
import struct
import zipfile
import zlib
from pathlib import Path

import pytest

from anabranch.cli.main import run_command
from anabranch.errors import InputError
from anabranch.spark.checkpoint.file_manifest import MANIFEST
from anabranch.spark.checkpoint.integrity import (
    DamagedCheckpointError,
    guard_checkpoint,
    inspect_checkpoint,
    refuse_damage,
    verify_checkpoint,
)
from anabranch.spark.checkpoint.spark_logs import find_least, list_names, name_log
from tests.faults.damages import (
    DAMAGES,
    cut_last,
    delete,
    flip_first,
    flip_last,
    flip_middle,
)

RETAIN = 2


class Crash(Exception):  # noqa: N818 - it is what happens, not what went wrong
    """The driver is killed here."""


class Spark:
    """A query of one source of files and one operator with two partitions, and its sink."""

    def __init__(
        self, place: Path, rng: random.Random, *, ids: bool = False, retain: int = RETAIN
    ) -> None:
        self.place = place
        self.rng = rng
        self.ids = ids
        self.retain = retain
        self.left: int | None = None

    def step(self) -> None:
        """Be killed here, if the time has come."""
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash

    def write(self, name: str, text: str) -> None:
        file = self.place / name
        file.parent.mkdir(parents=True, exist_ok=True)
        (file.parent / f".{file.name}.tmp").write_text(text)
        (file.parent / f".{file.name}.tmp").rename(file)
        sums = b"crc\0" + struct.pack(">II", 512, zlib.crc32(text.encode()))
        (file.parent / f".{file.name}.crc").write_bytes(sums)
        self.step()

    def numbers(self, folder: str) -> list[int]:
        return [int(path.name) for path in (self.place / folder).glob("[0-9]*")]

    def run(self, batches: int) -> None:
        """Start, go on for some batches, and stop."""
        keeper = guard_checkpoint(self.place, self.retain)
        self.step()
        if not (self.place / "metadata").exists():
            self.write("metadata", "id")
        done = max(self.numbers("commits"), default=-1)
        for number in range(done + 1, done + 1 + batches):
            self.begin(number)
            self.work(number, first=number == done + 1)
            keeper.note(number)
            self.step()
            self.write(f"commits/{number}", "v1")
        keeper.seal()

    def begin(self, number: int) -> None:
        if number in self.numbers("offsets"):
            return
        logs = [name_log(f"sources/0/{p.name}") for p in (self.place / "sources/0").glob("[0-9]*")]
        new = 1 + max((log.number for log in logs if log), default=-1)
        self.write(f"sources/0/{new}{'.compact' if new % 3 == 2 else ''}", f"files of {new}")
        kept = max(
            (log.number for log in logs if log and log.whole and log.number <= new - self.retain),
            default=-1,
        )
        self.remove(
            p
            for p in (self.place / "sources/0").glob("[0-9]*")
            if name_log(f"sources/0/{p.name}").number < kept
        )
        self.write(f"offsets/{number}", f"up to {new}")
        for folder in ("offsets", "commits"):
            self.remove(
                self.place / folder / str(n)
                for n in self.numbers(folder)
                if n < number - self.retain
            )

    def work(self, number: int, *, first: bool) -> None:
        salt = self.rng.randrange(10**6)
        if first:
            self.write(f"state/0/_stateSchema/default/{number}_{salt}", "schema")
            self.write(f"state/0/_metadata/v2/{number}", f"schema {salt}")
        for partition in ("state/0/0", "state/0/1"):
            name = f"{number + 1}_{salt}" if self.ids else str(number + 1)
            self.write(f"{partition}/{name}.changelog", "changes" * self.rng.randint(1, 3))
            if number == 0 or self.rng.random() < 0.4:
                self.snapshot(partition, name)
            self.clean(partition)

    def snapshot(self, partition: str, name: str) -> None:
        shared = f"{name}-{self.rng.randrange(10**6)}.sst"
        self.write(f"{partition}/SSTs/{shared}", "sorted")
        files = [{"dfsSstFileName": shared, "sizeBytes": 6}]
        draft = self.place / partition / f".{name}.zip.tmp"
        with zipfile.ZipFile(draft, "w") as archive:
            archive.writestr("metadata", "v1\n" + json.dumps({"sstFiles": files}))
        draft.rename(self.place / partition / f"{name}.zip")
        self.step()

    def clean(self, partition: str) -> None:
        files = (self.place / partition).glob("[0-9]*")
        logs = {path: name_log(f"{partition}/{path.name}") for path in files}
        whole = [log.number for log in logs.values() if log.whole]
        kept = max((n for n in whole if n <= max(whole, default=0) - self.retain + 1), default=-1)
        for path in [p for p, log in logs.items() if log.number < kept]:
            if path.suffix == ".zip":
                with zipfile.ZipFile(path) as archive:
                    text = archive.read("metadata").decode().partition("\n")[2]
                self.remove(
                    path.parent / "SSTs" / f["dfsSstFileName"] for f in json.loads(text)["sstFiles"]
                )
            self.remove([path])

    def remove(self, paths) -> None:
        """Remove files in any order, as Spark does in the background."""
        chosen = list(paths)
        self.rng.shuffle(chosen)
        for path in chosen:
            path.unlink(missing_ok=True)
            self.step()


@pytest.fixture
def stopped(tmp_path):
    """Return a checkpoint on which a query has run twice, and been stopped."""
    spark = Spark(tmp_path / "checkpoint", random.Random(1), retain=100)
    spark.run(4)
    spark.run(3)
    return spark.place


@pytest.mark.parametrize("ids", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_nothing_that_spark_does_and_no_crash_is_taken_for_damage(tmp_path, seed, ids):
    rng = random.Random(seed)
    spark = Spark(tmp_path / "checkpoint", rng, ids=ids)
    for _ in range(8):
        spark.left = rng.choice([None, rng.randint(0, 25)])
        spark.retain = rng.choice([1, RETAIN, 4])
        try:
            spark.run(rng.randint(1, 5))
        except Crash:
            spark.left = None
        report = inspect_checkpoint(spark.place)
        assert not report.findings, f"seed {seed}"


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_every_damage_to_a_log_is_named_alone(stopped, damage):
    names = [*list_names(stopped), MANIFEST]
    assert len(names) > 20
    for name in names:
        whole = (stopped / name).read_bytes()
        damage(stopped / name)
        named = [finding.file for finding in inspect_checkpoint(stopped).findings]
        if (name, damage) == (MANIFEST, delete):
            assert inspect_checkpoint(stopped).batch is None
        elif (name, damage) in ((MANIFEST, cut_last), (MANIFEST, flip_last)):
            assert not named  # As if the driver had been killed before it wrote of the last commit.
        elif name.endswith(".changelog") and damage in (flip_first, flip_middle, flip_last):
            assert not named  # Of large files only the size is known.
        elif name.endswith(".zip") and damage is flip_last:
            assert not named  # It is judged by its sums, and this byte is in none of them.
        else:
            assert named == [name]
            with pytest.raises(DamagedCheckpointError, match=name):
                guard_checkpoint(stopped, RETAIN)
        (stopped / name).write_bytes(whole)
    assert not inspect_checkpoint(stopped).findings


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_sums_of_hadoop_that_are_not_those_of_their_log_are_named_alone(stopped, damage):
    small = [name for name in list_names(stopped) if not name.endswith((".changelog", ".zip"))]
    assert len(small) > 15
    for name in small:
        log = stopped / name
        sums = log.with_name(f".{log.name}.crc")
        whole = sums.read_bytes()
        damage(sums)
        findings = inspect_checkpoint(stopped).findings
        # Hadoop does not ask for sums; and their middle is how many bytes one is over, at most.
        named = [] if damage in (delete, flip_middle) else [sums]
        assert [stopped / finding.file for finding in findings] == named
        assert all("it is enough to remove the checksums" in finding.detail for finding in findings)
        sums.write_bytes(whole)


def test_a_shared_file_of_the_state_that_is_missing_or_cut_is_named(stopped):
    (*_, file) = sorted(stopped.glob("state/0/0/SSTs/[0-9]*"))
    name = file.relative_to(stopped).as_posix()
    file.write_bytes(b"sort")
    (finding,) = inspect_checkpoint(stopped).findings
    assert (finding.file, finding.problem) == (name, "truncated")
    file.unlink()
    (finding,) = inspect_checkpoint(stopped).findings
    assert (finding.file, finding.problem) == (name, "missing")


@pytest.mark.parametrize(
    "name",
    [
        "offsets/8", "offsets/notes", "commits/7", "sources/0/9", "state/0/0/99.zip",
        "state/0/0/9.changelog", "state/0/0/5_1.changelog", "state/0/_metadata/v2/9",
    ],
)  # fmt: skip
def test_a_file_that_no_batch_can_have_written_is_extra(stopped, name):
    (stopped / name).write_text("strange")
    (finding,) = (f for f in inspect_checkpoint(stopped).findings if f.file == name)
    assert finding.problem in ("extra", "unreadable")
    with pytest.raises(DamagedCheckpointError):
        refuse_damage(stopped)


def test_files_of_the_batch_that_was_cut_off_are_no_extra(stopped):
    names = "sources/0/7", "sources/0/8.compact", "offsets/7", "state/0/0/8.changelog"
    for name in (*names, "state/0/0/8_1.changelog.crc", "state/0/0/something"):
        (stopped / name).write_text("new")
    assert not inspect_checkpoint(stopped).findings


def test_a_line_taken_out_of_the_manifest_is_found(stopped):
    lines = (stopped / MANIFEST).read_text().splitlines(keepends=True)
    assert len(lines) > 3
    for gone in range(len(lines)):
        (stopped / MANIFEST).write_text("".join(lines[:gone] + lines[gone + 1 :]))
        findings = inspect_checkpoint(stopped).findings
        # The last line only says that the last batch was committed after all.
        assert [f.file for f in findings] == ([MANIFEST] if gone < len(lines) - 1 else [])


def test_a_manifest_that_lost_its_last_lines_is_named_and_not_what_they_told_of(stopped):
    lines = (stopped / MANIFEST).read_text().splitlines(keepends=True)
    for kept in range(1, len(lines) - 1):
        (stopped / MANIFEST).write_text("".join(lines[:kept]))
        assert [f.file for f in inspect_checkpoint(stopped).findings] == [MANIFEST]


def test_a_series_must_be_complete_from_the_number_on_that_spark_keeps():
    def least(names, batch, retain):
        (found,) = find_least([name_log(name) for name in names], batch, retain).values()
        return found

    states = [f"state/0/0/{n}.changelog" for n in range(1, 9)]
    snapshots = [f"state/0/0/{n}.zip" for n in (1, 3, 5, 7)]
    assert least([*states, *snapshots], 7, 2) == 4  # The snapshot of version 5, which batch 4 made.
    assert least([*states, *snapshots], 7, 1) == 6
    assert least([*states, *snapshots], 7, 9) == -1
    sources = [
        "sources/0/2.compact",
        "sources/0/5.compact",
        *(f"sources/0/{n}" for n in (3, 4, 6, 7)),
    ]
    assert least(sources, 7, 2) == 5
    assert least(sources, 7, 3) == 2
    assert least([f"offsets/{n}" for n in range(8)], 7, 2) == 6
    schemas = [f"state/0/_metadata/v2/{n}" for n in (0, 3, 7)]
    assert least(schemas, 7, 2) == 3


def test_a_last_line_without_its_end_is_what_a_crash_leaves(tmp_path):
    spark = Spark(tmp_path / "checkpoint", random.Random(0))
    spark.run(2)
    with (spark.place / MANIFEST).open("a") as file:
        file.write('{"batch": 2, "fil')
    assert not inspect_checkpoint(spark.place).findings
    spark.run(1)
    assert inspect_checkpoint(spark.place).batch == 2


def test_a_checkpoint_without_a_manifest_is_taken_as_it_is_and_gets_one(stopped):
    (stopped / MANIFEST).unlink()
    (stopped / "commits" / "5").unlink()
    report = verify_checkpoint(stopped)
    assert (report.batch, report.is_damaged) == (None, False)
    guard_checkpoint(stopped, RETAIN)
    assert verify_checkpoint(stopped).batch == 6
    (stopped / "commits" / "6").write_text("v2")
    assert verify_checkpoint(stopped).is_damaged


def test_a_manifest_stays_short(tmp_path, monkeypatch):
    monkeypatch.setattr("anabranch.spark.checkpoint.file_manifest._MOST_LINES", 5)
    spark = Spark(tmp_path / "checkpoint", random.Random(0))
    spark.run(23)
    text = (spark.place / MANIFEST).read_text()
    assert len(text.splitlines()) <= 6
    assert '"offsets/0"' not in text
    assert not inspect_checkpoint(spark.place).findings
    (spark.place / "offsets" / "22").unlink()
    assert [f.file for f in inspect_checkpoint(spark.place).findings] == ["offsets/22"]


def test_only_new_files_are_read_with_a_batch(tmp_path, monkeypatch):
    spark = Spark(tmp_path / "checkpoint", random.Random(0), retain=100)
    spark.run(30)
    looked = []
    real = Path.stat
    keeper = guard_checkpoint(spark.place, 100)
    spark.begin(30)
    spark.work(30, first=False)
    monkeypatch.setattr(
        Path, "stat", lambda path, **more: (looked.append(path), real(path, **more))[1]
    )
    keeper.note(30)
    files = {path for path in looked if path.suffix != ".jsonl"} & {
        spark.place / n for n in list_names(spark.place)
    }
    assert 0 < len(files) <= 8


def test_the_error_says_which_files_and_what_to_do(stopped, message):
    (stopped / "commits" / "6").unlink()
    (stopped / "offsets" / "6").write_text("up")
    (stopped / "sources" / "0" / "6").write_text("files of 5")
    with pytest.raises(DamagedCheckpointError) as refusal:
        guard_checkpoint(stopped, RETAIN)
    message("a_checkpoint_is_damaged", str(refusal.value).replace(str(stopped), "checkpoint"))


def test_an_error_does_not_grow_without_an_end(stopped):
    for name in list_names(stopped):
        (stopped / name).unlink()
    with pytest.raises(DamagedCheckpointError, match=r"and \d+ more"):
        refuse_damage(stopped)


def test_what_is_no_checkpoint_is_refused(tmp_path, message):
    with pytest.raises(InputError) as refusal:
        verify_checkpoint(tmp_path)
    message("verify_what_is_no_checkpoint", str(refusal.value).replace(str(tmp_path), "folder"))


def test_the_command_says_the_same_and_leaves_with_one_if_it_is_damaged(stopped, capsys):
    assert run_command(["checkpoint", "verify", str(stopped)]) == 0
    assert "unchanged since batch 6" in capsys.readouterr().out
    (stopped / "commits" / "6").unlink()
    assert run_command(["checkpoint", "verify", str(stopped)]) == 1
    assert "commits/6" in capsys.readouterr().out
    assert run_command(["checkpoint", "verify", str(stopped), "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["damaged"] is True
    assert [finding["file"] for finding in document["findings"]] == ["commits/6"]
    (stopped / MANIFEST).unlink()
    assert run_command(["checkpoint", "verify", str(stopped)]) == 0
    assert "no manifest" in capsys.readouterr().out
    assert run_command(["checkpoint", "verify", str(stopped.parent / "nowhere")]) == 2


def test_the_output_folder_of_a_run_will_do(stopped, capsys):
    out = stopped.parent / "out"
    out.mkdir()
    stopped.rename(out / "_checkpoint")
    assert run_command(["checkpoint", "verify", str(out)]) == 0
    assert "unchanged since batch 6" in capsys.readouterr().out
