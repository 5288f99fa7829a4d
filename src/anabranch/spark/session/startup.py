"""The start of a Spark session with the settings that Anabranch relies on."""

import os
import re
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from anabranch.errors import AnabranchError, InputError, MissingExtraError
from anabranch.spark.session.java import describe_search, find_java
from anabranch.spark.session.jvm import launch_jvm
from anabranch.spark.session.signals import keep_handlers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_LOG_SETTINGS = Path(__file__).with_name("log4j2.properties")

_FORKING = "-Djdk.lang.Process.launchMechanism=VFORK"
"""Hadoop starts a `chmod` process for each file that it writes on a local disk; this halves the cost."""

_STACK = "-Xss4m"
"""A larger stack: Spark removes comments from generated code by a regular expression that recurs on them."""

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for a JVM that runs for seconds, of which its best compiler would take half."""

UI_PORTS = range(4040, 4057)
"""The ports that Spark tries for its web UI: it takes the first that is free."""

_PATIENCE_S = 5.0
_HOST = r"(?:[\w.-]+|\[[\da-fA-F:]+\]):\d+"
_MASTER = re.compile(
    r"local(\[(?:[1-9]\d*|\*)(?:\s*,\s*\d+)?\])?|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|"
    rf"spark://{_HOST}(?:,{_HOST})*|yarn|k8s://\S+"
)


class SessionError(AnabranchError, RuntimeError):
    """Spark could not be started."""


DEFAULT_SETTINGS = {
    # Stateful Python operators need RocksDB; Spark's default keeps state on the JVM heap.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Without it every batch uploads whole RocksDB files, and the change feed can't be read.
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # Fixed at the first batch of a query, so it is set where the session starts.
    "spark.sql.shuffle.partitions": "2",
    # Time is microseconds UTC; the zone of the machine must not change a result.
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # A local session needs no name lookup and no port that is open to the network.
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
}


LOCAL_SETTINGS = {
    # On a local disk, the default class starts a `readlink` process for each file of a checkpoint: a
    # third of the time of an empty batch.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
"""Settings for a `local` master only: on a cluster, Spark chooses the class that a file system needs."""


def start_session(
    *, name: str = "anabranch", master: str = "local[2]", ui: bool | None = None, **settings: str
) -> "SparkSession":
    """Start a Spark session, or return the one that already runs in this process.

    `ui=False` starts it without Spark's web UI, `ui=True` with it. By default Spark's own configuration
    decides, which opens the UI on port 4040 or the next free port; if no port is free, there is no UI.
    `settings` are Spark's own, and override `DEFAULT_SETTINGS`: `start_session(**{"spark.ui.port": "4100"})`.
    """
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession
    except ImportError as missing:
        raise MissingExtraError(
            "Spark is not installed",
            expected="PySpark 4.3",
            cure="pip install 'anabranch[spark]'",
        ) from missing
    check_master(master)
    java_home = _require_java()
    _prepare_environment()
    merged = _merge_settings(master, _choose_ui(ui) | settings)
    builder = SparkSession.builder.appName(name).master(master)
    for setting, value in merged.items():
        builder = builder.config(setting, value)
    try:
        with keep_handlers():
            # One JVM serves all sessions of a process, one after the other.
            if SparkContext._gateway is None:
                conf = SparkConf().setAppName(name).setMaster(master).setAll(list(merged.items()))
                launch_jvm(conf, java_home)
            session = builder.getOrCreate()
    except Exception as error:
        raise SessionError(
            "Spark could not be started",
            where=f"master {master}",
            got=next(iter(str(error).splitlines()), type(error).__name__),
            cure="see the output of Spark above; `--master local[2]` needs no cluster",
        ) from error
    # A session that already existed may have another log level.
    session.sparkContext.setLogLevel("ERROR")
    return session


def check_master(master: str) -> None:
    """Raise `InputError` if a master is not valid, or does not answer, before a JVM starts."""
    if not _MASTER.fullmatch(master):
        raise InputError(
            f"{master!r} is not a Spark master",
            expected="local[2], local[*], spark://host:7077, yarn or k8s://https://host:port",
            got=master,
        )
    hosts = master.removeprefix("spark://").split(",") if master.startswith("spark://") else []
    failures = [failure for host in hosts if (failure := _try_to_reach(host)) is not None]
    if hosts and len(failures) == len(hosts):
        raise InputError(
            f"no Spark master answers at {master}",
            expected="a standalone cluster that is running",
            got="; ".join(failures),
            cure="start it, or check its address, at the top of its web UI; "
            "`--master local[2]` needs no cluster",
        )


def _try_to_reach(place: str) -> str | None:
    host, _, port = place.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE_S):
            return None
    except (OSError, OverflowError) as error:
        return f"{place}: {error}"


def _require_java() -> Path:
    java_home = find_java()
    if java_home is None:
        raise MissingExtraError(
            "Spark needs Java, and no version that it runs on was found",
            expected="Java 17 or 21",
            got=describe_search(),
            cure="pip install 'anabranch[java]', or set JAVA_HOME to a Java 17 or 21",
        )
    return java_home


def _prepare_environment() -> None:
    # The JVM and its Python workers read these from the environment only. By default workers run
    # the first python3 on the PATH.
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK


def _choose_ui(ui: bool | None) -> dict[str, str]:  # noqa: FBT001 - of three values
    """Return the setting of Spark's web UI; without a free port for it, Spark would not start."""
    if ui is None:
        return {} if any(map(_is_free, UI_PORTS)) else {"spark.ui.enabled": "false"}
    if not isinstance(ui, bool):
        raise InputError("ui is not a choice", expected="True, False or None", got=repr(ui))
    return {"spark.ui.enabled": str(ui).lower()}


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((_LOOPBACK, port))
        except OSError:
            return False
        return True


def _merge_settings(master: str, settings: dict[str, str]) -> dict[str, str]:
    local = LOCAL_SETTINGS if master.startswith("local") else {}
    merged = DEFAULT_SETTINGS | local | settings
    java_options = "spark.driver.extraJavaOptions"
    quiet = f"-Dlog4j2.configurationFile={_LOG_SETTINGS.as_uri()}"
    merged[java_options] = f"{quiet} {_FORKING} {_STACK} {merged.get(java_options, '')}".strip()
    return merged
