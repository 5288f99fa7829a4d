"""A process loads the machine code that another one compiled."""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anabranch.kernels import code_cache, make_kernel

ROOT = Path(__file__).parents[2]

PROBE = """
import json, sys
import numba
numba.__version__ = sys.argv[1] if len(sys.argv) > 1 else numba.__version__
from examples.fraud import Rule, Totals, Txn, fraud
from anabranch.kernels import fill, gather, make_kernel, code_cache

kernel = make_kernel(fraud.initial, "compiled")
kernel.prepare()
events = [(0, Txn(1, 7)), (0, Rule(2)), (0, Txn(3, 1007)), (0, Rule(5))]
folded = kernel.fold(fill(kernel.layout, Totals(0, 0), 1), gather(kernel.event_types, events))
loop = code_cache.load(kernel.blueprint.source).fold
stats = loop.stats
print(json.dumps({
    "emitted": folded.outputs(),
    "hits": sum(stats.cache_hits.values()),
    "misses": sum(stats.cache_misses.values()),
}))
"""


EMITTED = [["rule", 7], ["txn", 1007], ["rule", 1007]]
COMPILED = {"emitted": EMITTED, "hits": 0, "misses": 1}
LOADED = {"emitted": EMITTED, "hits": 1, "misses": 0}


def start_probe(cache: Path, *args: str) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROBE, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "ANABRANCH_CACHE": str(cache)},
    )


def finish_probe(process: subprocess.Popen) -> dict:
    out, problems = process.communicate()
    assert process.returncode == 0, problems
    return json.loads(out)


def probe(cache: Path, *args: str) -> dict:
    return finish_probe(start_probe(cache, *args))


def test_a_second_process_compiles_nothing(tmp_path):
    assert probe(tmp_path) == COMPILED
    assert probe(tmp_path) == LOADED


def test_two_processes_that_compile_at_once_are_both_right_and_leave_a_good_cache(tmp_path):
    both = [start_probe(tmp_path) for _ in range(2)]
    answers = [finish_probe(process) for process in both]
    # The second process waits for the first, and loads.
    assert sorted(answers, key=lambda answer: answer["hits"]) == [COMPILED, LOADED]
    assert probe(tmp_path) == LOADED
    assert not list(tmp_path.rglob("*.draft"))


SOURCE = """
from numba import njit, types
@njit(types.int64(types.int64), cache=True)
def fold(n):
    return n + 7
"""


def load_anew() -> tuple[int, int, int]:
    """Load as a new process would; return a result, and the counts of cache hits and misses."""
    code_cache._LOADED.pop(SOURCE, None)
    fold = code_cache.load(SOURCE).fold
    return fold(1), sum(fold.stats.cache_hits.values()), sum(fold.stats.cache_misses.values())


@pytest.fixture
def cache_of_one(monkeypatch, tmp_path) -> Path:
    """Return a cache folder with one kernel in it."""
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    assert [load_anew(), load_anew()] == [(8, 0, 1), (8, 1, 0)]
    return tmp_path


def flip(data: bytes) -> bytes:
    """Change one bit in the middle, where the machine code is."""
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


DAMAGES = {
    "truncated": lambda data: data[: len(data) // 2],
    "empty": lambda data: b"",
    "flipped": flip,
    "scrambled": lambda data: b"\x80\x05no pickle at all",
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("kind", ["nbi", "nbc"])
def test_a_damaged_file_is_compiled_again(cache_of_one, kind, damage):
    (file,) = cache_of_one.rglob(f"*.{kind}")
    file.write_bytes(DAMAGES[damage](file.read_bytes()))
    assert [load_anew(), load_anew()] == [(8, 0, 1), (8, 1, 0)]


def test_a_process_of_its_own_compiles_a_damaged_file_again_too(tmp_path):
    assert probe(tmp_path) == COMPILED
    (file,) = tmp_path.rglob("*.nbc")
    file.write_bytes(flip(file.read_bytes()))
    assert probe(tmp_path) == COMPILED


@pytest.mark.parametrize("kind", ["py", "seal", "nbc", "nbi", "lock"])
def test_a_file_that_is_gone_or_empty_does_no_harm(cache_of_one, kind):
    (file,) = cache_of_one.rglob(f"*.{kind}")
    file.unlink()
    assert load_anew()[0] == 8
    file.write_bytes(b"")
    assert load_anew()[0] == 8
    assert load_anew() == (8, 1, 0)


def test_what_another_version_of_numba_compiled_is_not_used(tmp_path):
    assert probe(tmp_path, "0.0.1") == COMPILED
    assert probe(tmp_path) == COMPILED
    assert probe(tmp_path, "0.0.1") == LOADED
    assert len(list(tmp_path.rglob("*.nbc"))) == 2


def test_what_another_python_compiled_is_not_used(cache_of_one, monkeypatch):
    monkeypatch.setattr(sys, "version", "3.99.0")
    assert load_anew() == (8, 0, 1)
    monkeypatch.undo()
    monkeypatch.setenv("ANABRANCH_CACHE", str(cache_of_one))
    assert load_anew() == (8, 1, 0)


@pytest.mark.parametrize("part", ["sys.version", "numba.__version__"])
def test_another_version_has_another_name(monkeypatch, part):
    here = code_cache._name("x = 1\n")
    monkeypatch.setattr(part, "another")
    assert code_cache._name("x = 1\n") != here


@pytest.mark.skipif(os.name != "posix", reason="a folder can't be made read-only elsewhere")
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write")
def test_a_shelf_that_can_not_be_written_is_read(cache_of_one):
    for folder in (cache_of_one / "kernels" / "__pycache__", cache_of_one / "kernels"):
        folder.chmod(0o500)
    assert load_anew() == (8, 1, 0)


def test_a_cache_that_numba_can_not_write_costs_only_the_next_process_its_time(
    monkeypatch, tmp_path
):
    from numba.core import caching

    def refuse(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    monkeypatch.setattr(caching.IndexDataCacheFile, "save", refuse)
    assert load_anew()[0] == 8
    monkeypatch.undo()
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    assert load_anew() == (8, 0, 1)


def test_many_writers_leave_one_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    with ThreadPoolExecutor(8) as threads:
        files = set(threads.map(lambda _: code_cache._place("x = 1\n", "one.py"), range(50)))
    assert files == {tmp_path / "kernels" / "one.py"}
    assert [file.name for file in (tmp_path / "kernels").iterdir()] == ["one.py"]
    assert files.pop().read_text() == "x = 1\n"


def test_the_channel_names_the_file(monkeypatch, tmp_path):
    from examples.value_barrier import value_barrier

    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    source = make_kernel(value_barrier.initial, "compiled").blueprint.source
    assert code_cache._name(source) == code_cache._name(source)
    assert code_cache._name(source) != code_cache._name(source + "\n")


@pytest.mark.skipif(os.name != "posix", reason="folders have owners on POSIX only")
def test_a_folder_that_others_may_write_is_not_trusted(tmp_path, monkeypatch):
    monkeypatch.setenv("ANABRANCH_CACHE", str(tmp_path))
    (tmp_path / "kernels").mkdir(mode=0o700)
    (tmp_path / "kernels").chmod(0o777)
    file = code_cache._place("x = 1\n", "one.py")
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
    assert code_cache.find_cache_folder() == expected


def test_threads_that_load_one_source_at_once_get_the_whole_module(monkeypatch):
    begun = threading.Event()

    def compile_slowly(module, source, file):
        begun.set()
        time.sleep(0.2)
        module.fold = source

    monkeypatch.setattr(code_cache, "_compile", compile_slowly)
    source = "# loaded by two threads"
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(code_cache.load, source)
        begun.wait()
        second = pool.submit(lambda: code_cache.load(source).fold)
        assert second.result() == source
        assert first.result().fold == source
