"""What one process compiled, another loads."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anabranch.kernels import make_kernel, shelf

ROOT = Path(__file__).parents[2]

PROBE = """
import json
from examples.fraud import Rule, Totals, Txn, fraud
from anabranch.kernels import fill, gather, make_kernel, shelf

kernel = make_kernel(fraud.initial, "compiled")
kernel.prepare()
events = [(0, Txn(1, 7)), (0, Rule(2)), (0, Txn(3, 1007)), (0, Rule(5))]
folded = kernel.fold(fill(kernel.layout, Totals(0, 0), 1), gather(kernel.tags, events))
loop = shelf.load(kernel.blueprint.source).fold
stats = loop.stats
print(json.dumps({
    "said": folded.outputs(),
    "hits": sum(stats.cache_hits.values()),
    "misses": sum(stats.cache_misses.values()),
}))
"""


def probe(cache: Path) -> dict:
    answer = subprocess.run(
        [sys.executable, "-c", PROBE],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env={**os.environ, "ANABRANCH_CACHE": str(cache)},
    )
    return json.loads(answer.stdout)


def test_a_second_process_compiles_nothing(tmp_path):
    said = [["rule", 7], ["txn", 1007], ["rule", 1007]]
    assert probe(tmp_path) == {"said": said, "hits": 0, "misses": 1}
    assert probe(tmp_path) == {"said": said, "hits": 1, "misses": 0}


def test_many_writers_leave_one_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        files = set(threads.map(lambda _: shelf._place("x = 1\n", "one.py"), range(50)))
    assert files == {tmp_path / "kernels" / "one.py"}
    assert [file.name for file in (tmp_path / "kernels").iterdir()] == ["one.py"]
    assert files.pop().read_text() == "x = 1\n"


def test_the_source_names_the_file(monkeypatch, tmp_path):
    from examples.value_barrier import value_barrier

    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    source = make_kernel(value_barrier.initial, "compiled").blueprint.source
    assert shelf._name(source) == shelf._name(source)
    assert shelf._name(source) != shelf._name(source + "\n")


@pytest.mark.skipif(os.name != "posix", reason="folders have owners on POSIX only")
def test_a_folder_that_others_may_write_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    (tmp_path / "kernels").mkdir(mode=0o700)
    (tmp_path / "kernels").chmod(0o777)
    file = shelf._place("x = 1\n", "one.py")
    assert file.parent != tmp_path / "kernels"
    assert file.read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"XDG_CACHE_HOME": "/x"}, Path("/x/anabranch/kernels")),
        ("linux", {"ANABRANCH_CACHE": "/y"}, Path("/y/kernels")),
        ("darwin", {"HOME": "/h"}, Path("/h/Library/Caches/anabranch/kernels")),
        ("win32", {"LOCALAPPDATA": "/l"}, Path("/l/anabranch/kernels")),
    ],
)
def test_the_shelf_stands_where_the_platform_keeps_caches(
    monkeypatch, platform, variables, expected
):
    monkeypatch.delenv("ANABRANCH_CACHE", raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert shelf.find_shelf() == expected
