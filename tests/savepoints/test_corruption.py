"""Every file of a savepoint damaged in every way, one at a time: a named error, never an answer."""

import random
import shutil

import pytest

from anabranch.savepoints.folders import DamagedSavepointError, ForbiddenFileError, NoSavepointError
from anabranch.savepoints.objects import read_snapshot, write_snapshot
from tests.savepoints.programs import FULL, shop, take

LENGTHS = (0, 1, 3, 4, 11, 12, 0.25, 0.5, 0.75, -8, -4, -1)
FLIPS = 40
EXTRA = (b"", b"PAR1", b"\x80\x04N.", b"PAR1" + b"\0" * 20 + b"PAR1")


def list_files(folder):
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def list_damages(folder):
    """Return (file, what to do to it) for every damage; the same ones on every run."""
    rng = random.Random(7)
    damages = []
    for relative in list_files(folder):
        data = (folder / relative).read_bytes()
        damages.append((relative, "deleted", None))
        sizes = {int(n * len(data)) if isinstance(n, float) else n % len(data) for n in LENGTHS}
        damages += [(relative, f"cut to {size}", data[:size]) for size in sorted(sizes)]
        # The first and last bytes, where formats keep what they are known by, and any others.
        places = {0, 3, 4, 7, len(data) - 1, len(data) - 4, len(data) - 8}
        places |= {rng.randrange(len(data)) for _ in range(FLIPS)}
        for place in sorted(places):
            flipped = bytes([data[place] ^ (1 << rng.randrange(8))])
            changed = data[:place] + flipped + data[place + 1 :]
            damages.append((relative, f"flipped at {place}", changed))
        damages.append((relative, "longer", data + b"\0"))
        damages.append((relative, "empty lines", data + b"\n"))
    folders = ["", *{relative.rpartition("/")[0] + "/" for relative in list_files(folder)} - {"/"}]
    for place in sorted(folders):
        for number, data in enumerate(EXTRA):
            damages.append((f"{place}extra-{number}.parquet", "added", data))
    return damages


def apply(folder, relative, data):
    if data is None:
        (folder / relative).unlink()
    else:
        (folder / relative).write_bytes(data)


@pytest.mark.parametrize(
    ("name", "snapshot", "least"), [("shop", take(), 490), ("full", FULL, 310)]
)
def test_every_damage_is_found_and_the_file_is_named(tmp_path, name, snapshot, least):
    good = write_snapshot(snapshot, shop, tmp_path / "good", rows=3)
    folder = tmp_path / "bad"
    shutil.copytree(good, folder)
    damages = list_damages(good)
    for relative, what, data in damages:
        apply(folder, relative, data)
        with pytest.raises((DamagedSavepointError, NoSavepointError, ForbiddenFileError)) as error:
            read_snapshot(folder, shop)
        assert relative in str(error.value), f"{relative} {what}"
        # Whoever puts the file back has the savepoint back.
        (folder / relative).unlink(missing_ok=True)
        if (good / relative).exists():
            shutil.copyfile(good / relative, folder / relative)
    assert read_snapshot(folder, shop) == snapshot
    print(f"{name}: {len(damages)} damages of {len(list_files(good))} files, all found")  # noqa: T201
    assert len(damages) >= least


def test_two_files_that_change_places_are_found(tmp_path):
    folder = write_snapshot(take(), shop, tmp_path / "one", rows=2)
    first, second = folder / "state/part-00000.parquet", folder / "state/part-00001.parquet"
    first.rename(tmp_path / "aside")
    second.rename(first)
    (tmp_path / "aside").rename(second)
    with pytest.raises(DamagedSavepointError) as error:
        read_snapshot(folder, shop)
    assert error.value.changed == ("state/part-00000.parquet", "state/part-00001.parquet")


def test_bits_all_over_the_manifest_and_its_sum_count(tmp_path):
    folder = write_snapshot(FULL, shop, tmp_path / "one")
    for name in ("manifest.json", "manifest.sha256"):
        data = (folder / name).read_bytes()
        # One bit of every third byte, and all bits of some: the manifest has some thousand bytes.
        places = [(n, n // 3 % 8) for n in range(0, len(data), 3)]
        places += [(n, bit) for n in range(0, len(data), 97) for bit in range(8)]
        for place, bit in places:
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            (folder / name).write_bytes(bytes(flipped))
            with pytest.raises(DamagedSavepointError, match=name):
                read_snapshot(folder, shop)
        (folder / name).write_bytes(data)
    assert read_snapshot(folder, shop) == FULL
