"""A standalone cluster on loopback: a master, two workers, one of them killed in mid-run."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.inputs import LongStory, check_answer, published

pytestmark = pytest.mark.spark

DRIVER = Path(__file__).with_name("driver.py")
FILES = 6
LENGTH = 120
PATIENCE = 150


def launch(home: Path, name: str, *arguments: str) -> subprocess.Popen:
    """Start one of Spark's daemons, in the foreground of a group of its own."""
    import pyspark

    from anabranch.spark.session.java import find_java

    jars = Path(pyspark.__file__).parent / "jars" / "*"
    java = find_java() / "bin" / "java"
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "JAVA_HOME": str(find_java()),
        # A pip install has no build directories from which Spark could read this.
        "SPARK_SCALA_VERSION": "2.13",
    }
    with (home / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [java, "-Xmx512m", "-cp", str(jars), *arguments],
            env=environment,
            cwd=home,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def wait_for(found, what: str):
    deadline = time.monotonic() + PATIENCE
    while not (result := found()):
        assert time.monotonic() < deadline, f"no {what}"
        time.sleep(0.1)
    return result


def find(file: Path, pattern: str):
    return lambda: file.exists() and re.search(pattern, file.read_text(errors="replace"))


@pytest.mark.timeout(400)
def test_a_worker_that_is_killed_does_not_show_in_the_answer(spark, tmp_path):
    from anabranch.spark.session.java import find_java
    from anabranch.spark.session.jvm import VECTOR_MODULE, has_module

    if not has_module(find_java(), VECTOR_MODULE):
        pytest.skip("Spark starts executors with a module that this Java (a wheel) does not have")
    story = LongStory("value_barrier", LENGTH, seed=0)
    story.write(tmp_path / "in", story.slices(FILES))
    started = []
    try:
        deploy = "org.apache.spark.deploy"
        options = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        started.append(launch(tmp_path, "master", f"{deploy}.master.Master", *options))
        # An ephemeral port is told in the master's log only.
        found = wait_for(find(tmp_path / "master.log", r"spark://127\.0\.0\.1:\d+"), "master")
        master = found.group()
        for number in (1, 2):
            own = ("--cores", "1", "--memory", "1g", "--host", "127.0.0.1", "--webui-port", "0")
            folder = ("--work-dir", str(tmp_path / f"work{number}"))
            daemon = (f"{deploy}.worker.Worker", *own, *folder, master)
            started.append(launch(tmp_path, f"worker{number}", *daemon))
            registered = find(tmp_path / f"worker{number}.log", "Successfully registered")
            wait_for(registered, f"worker {number}")
        with (tmp_path / "driver.log").open("wb") as log:
            driver = subprocess.Popen(
                [sys.executable, DRIVER, "value_barrier", str(LENGTH), "0", tmp_path, master],
                cwd=DRIVER.parents[2],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        started.append(driver)
        wait_for(lambda: published(tmp_path / "out")[1:2], "second batch")
        executors = [list((tmp_path / f"work{n}").glob("*/*/stderr")) for n in (1, 2)]
        assert all(executors), "one worker had nothing to do"
        os.killpg(started[1].pid, signal.SIGKILL)
        assert started[1].wait(timeout=10) == -signal.SIGKILL
        assert published(tmp_path / "out")[-1] < FILES - 1, "it was killed too late to matter"
        assert driver.wait(timeout=PATIENCE) == 0, (tmp_path / "driver.log").read_text()[-2000:]
    finally:
        for process in reversed(started):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(timeout=10)
    check_answer(spark, story, tmp_path / "out")
