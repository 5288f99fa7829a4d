"""The settings of a session that a stream relies on: the value that each must have, and why.

Only settings that could change a result, lose an event or prevent a restart are here. The time zone, ANSI
SQL, the size of Arrow batches and the number of partitions have no effect on a result, so they need not be
set.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING, Any

from anabranch.errors import AnabranchError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SettingsError(AnabranchError, ValueError):
    """A session can't run a stream: some of its settings, or of its packages, are wrong."""


@dataclass(frozen=True)
class Setting:
    """A setting of Spark: the value that streams need, Spark's default, and why.

    A `fixed` setting can't be changed after the Spark context has started.
    """

    name: str
    needed: str
    usual: str
    why: str
    fixed: bool = False


@dataclass(frozen=True)
class SettingFault:
    """A wrong setting or package: the value found, the value needed, why, and the line that fixes it."""

    name: str
    found: str
    needed: str
    why: str
    line: str


SETTINGS = (
    Setting(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider",
        "Python operators with state run on RocksDB only",
    ),
    Setting(
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
        "true",
        "false",
        "else every batch uploads whole files of RocksDB, and the changes of a state can't be read",
    ),
    Setting(
        "spark.sql.streaming.stateStore.stateSchemaCheck",
        "true",
        "true",
        "a state with another schema must not be read as that of this query",
    ),
    Setting(
        "spark.sql.streaming.stateStore.commitValidation.enabled",
        "true",
        "true",
        "else a sink that does not read a batch to its end, as the state needs, goes unnoticed",
    ),
    Setting(
        "spark.sql.streaming.statefulOperator.allowMultiple",
        "true",
        "true",
        "a program with markers is several operators with state in one query",
    ),
    Setting(
        "spark.sql.files.ignoreCorruptFiles",
        "false",
        "false",
        "a file that can't be read would be skipped silently, with its events",
    ),
    Setting(
        "spark.sql.files.ignoreMissingFiles",
        "false",
        "false",
        "a file that is gone before a replay would be skipped silently",
    ),
    Setting(
        "spark.speculation",
        "false",
        "false",
        "a second attempt of a task could overwrite the state that the first has written",
        fixed=True,
    ),
)

PACKAGES = (
    ("pandas", (0,), (3,), "PySpark 4.3 does not run with pandas 3"),
    ("protobuf", (6, 33, 5), None, "Spark's stateful Python operators use it"),
)
"""Name, first version that works, first later one that does not, and why."""


def prepare(spark: SparkSession) -> dict[str, str]:
    """Set the settings that streams need and a running session can change; return those that were changed."""
    changed = {}
    for setting in SETTINGS:
        if not setting.fixed and _find(spark, setting) != setting.needed:
            spark.conf.set(setting.name, setting.needed)
            changed[setting.name] = setting.needed
    return changed


def check_settings(frames: Sequence[DataFrame], spark: SparkSession | None = None) -> None:
    """Raise `SettingsError` with all faults if a session or its readers could lose events."""
    spark = frames[0].sparkSession if spark is None else spark
    faults = [*_look_at_session(spark), *_look_at_packages(), *_look_at_workers(spark)]
    faults += [fault for frame in frames for fault in _look_at_reader(frame)]
    if faults:
        raise SettingsError(_describe(faults), cure=_name_cure(faults))


def _look_at_session(spark: SparkSession) -> Iterator[SettingFault]:
    for setting in SETTINGS:
        found = _find(spark, setting)
        if found != setting.needed:
            line = f'spark.conf.set("{setting.name}", "{setting.needed}")'
            if setting.fixed:
                line = (
                    f"--conf {setting.name}={setting.needed}, or .config() before the first session"
                )
            yield SettingFault(setting.name, found, setting.needed, setting.why, line)


def _find(spark: SparkSession, setting: Setting) -> str:
    found = str(spark.conf.get(setting.name, setting.usual))
    return found.lower() if setting.needed in ("true", "false") else found


def _look_at_packages() -> Iterator[SettingFault]:
    for name, least, beyond, why in PACKAGES:
        needed = f">={_join(least)}" if beyond is None else f"<{_join(beyond)}"
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            yield SettingFault(name, "not installed", needed, why, f"pip install '{name}{needed}'")
            continue
        version = tuple(int(part) for part in re.findall(r"\d+", found)[:3])
        if version < least or (beyond is not None and version >= beyond):
            yield SettingFault(name, found, needed, why, f"pip install '{name}{needed}'")


def _look_at_workers(spark: SparkSession) -> Iterator[SettingFault]:
    """Run a task that reports the Python of the workers, unless it can only be that of this process."""
    context = spark.sparkContext
    command = str(context.pythonExec)
    place = which(command) or command
    if str(context.master).startswith("local") and Path(place) == Path(sys.executable):
        return
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    needed = f"Python {own} with anabranch {metadata.version('anabranch')}"
    try:
        found = _ask_worker(context)
    except Exception as error:  # noqa: BLE001 - any failure of a worker is the finding
        found = _find_cause(str(error))
    if found != needed:
        yield SettingFault(
            f"the Python of the workers ({command})",
            found,
            needed,
            "updates run in the workers, on objects that the driver pickles",
            f'os.environ["PYSPARK_PYTHON"] = "{sys.executable}" before the first session, '
            "or --conf spark.pyspark.python=…",
        )


def _ask_worker(context: Any) -> str:
    # Defined here, so that it is sent by value: a worker may not have this module.
    def describe(_: Any) -> Iterator[str]:
        import sys
        from importlib import metadata

        own = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        try:
            yield f"{own} with anabranch {metadata.version('anabranch')}"
        except metadata.PackageNotFoundError:
            yield f"{own} without anabranch"

    return str(context.parallelize([0], 1).mapPartitions(describe).collect()[0])


def _find_cause(text: str) -> str:
    """Return the line with the exception in the text of a worker's failure."""
    lines = [line.strip() for line in text.splitlines()]
    named = [line for line in lines if re.match(r"^[\w.]*(Error|Exception)\b.*: ", line)]
    return (named or lines or ["no answer"])[-1 if named else 0][:200]


def _look_at_reader(frame: DataFrame) -> Iterator[SettingFault]:
    """Yield the options of a reader that skip files silently; they override the session's settings."""
    leaves = frame._jdf.queryExecution().analyzed().collectLeaves()
    for place in range(leaves.size()):
        leaf = leaves.apply(place)
        if leaf.getClass().getSimpleName() != "StreamingRelation":
            continue
        options = _read_options(leaf.dataSource().options())
        for setting in SETTINGS:
            short = setting.name.rpartition(".")[2]
            if setting.name.startswith("spark.sql.files.") and options.get(short.lower()) == "true":
                name = f"the reader's option {short}"
                line = f'leave out .option("{short}", …)'
                yield SettingFault(name, "true", setting.needed, setting.why, line)


def _read_options(options: Any) -> Mapping[str, str]:
    found = {}
    entries = options.iterator()
    while entries.hasNext():
        entry = entries.next()
        found[str(entry._1()).lower()] = str(entry._2()).lower()
    return found


def _describe(faults: list[SettingFault]) -> str:
    count = "one thing is" if len(faults) == 1 else f"{len(faults)} things are"
    lines = [f"this session can't run a stream: {count} not as needed"]
    for fault in faults:
        lines += [
            f"  {fault.name}",
            f"    found:  {fault.found}",
            f"    needed: {fault.needed}",
            f"    why:    {fault.why}",
            f"    write:  {fault.line}",
        ]
    return "\n".join(lines)


def _name_cure(faults: list[SettingFault]) -> str:
    if any(fault.line.startswith("spark.conf.set") for fault in faults):
        return "anabranch.spark.prepare(spark) sets what a running session can change"
    if all(fault.line.startswith("pip install") for fault in faults):
        return "install them, and restart Python"
    return "restart the session; anabranch.spark.start_session() has the right settings"


def _join(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
