"""Environments: one for each engine, made when it is first asked for, and kept in the cache."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anabranch.spark.session.java import describe_search, find_java

PATIENCE_S = 1_200


@dataclass(frozen=True)
class Environment:
    """What an engine needs; without packages it is the project's own environment."""

    name: str
    packages: tuple[str, ...] = ()
    needs_java: bool = False


OWN = Environment("project", needs_java=True)
PYTHON = Environment("project")
BYTEWAX = Environment("bytewax", ("bytewax==0.21.1", "numpy==2.4.6", "pyarrow==26.0.1"))
PATHWAY = Environment("pathway", ("pathway==0.33.0",))
FLINK = Environment("flink", ("apache-flink==2.3.0",), needs_java=True)


class UnavailableError(RuntimeError):
    """An engine can't be had here, and why."""


def find_python(cache: Path, environment: Environment) -> Path:
    """Return the Python of an environment, after installing what it needs with the configured pip."""
    if environment.needs_java and find_java() is None:
        raise UnavailableError(f"no Java 17 or 21: {describe_search()}")
    if not environment.packages:
        return Path(sys.executable)
    folder = cache / "environments" / environment.name
    python = folder / "bin" / "python"
    wanted = "\n".join(environment.packages) + "\n"
    installed = folder / "installed.txt"
    if not installed.exists() or installed.read_text(encoding="utf-8") != wanted:
        shutil.rmtree(folder, ignore_errors=True)
        print(f"  installing {', '.join(environment.packages)} (first time only) …", flush=True)
        _call([sys.executable, "-m", "venv", str(folder)], f"no environment for {environment.name}")
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _call([*pip, "--no-input", *environment.packages], f"{environment.name} does not install")
        installed.write_text(wanted, encoding="utf-8")
    return python


def make_variables(
    environment: Environment, jobs: Path, root: Path, base: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the variables of a job: its folder is importable, in workers too."""
    variables = dict(base)
    paths = [str(jobs)] if environment.packages else [str(jobs), str(root)]
    variables["PYTHONPATH"] = os.pathsep.join(paths)
    java = find_java() if environment.needs_java else None
    if java is not None:
        variables["JAVA_HOME"] = str(java)
    return variables


def _call(command: list[str], failure: str) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise UnavailableError(f"{failure}: {error}") from error
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        raise UnavailableError(f"{failure}: {lines[-1] if lines else 'pip prints nothing'}")
