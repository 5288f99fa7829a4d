import subprocess

import pytest

from anabranch.spark.launcher import VECTOR_MODULE, adapt_java, has_module


def place_java(home, modules):
    """Write a Java that prints its options, one to a line, and lists these modules."""
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    java.chmod(0o755)
    (home / "release").write_text(f'JAVA_VERSION="21.0.8"\nMODULES="{modules}"\nSOURCE=""\n')
    return home


@pytest.mark.parametrize(
    ("modules", "has_it"),
    [("java.base jdk.incubator.vector", True), ("java.base", False), ("", False)],
)
def test_modules_are_read_from_the_release_file(tmp_path, modules, has_it):
    assert has_module(place_java(tmp_path / "jdk", modules), VECTOR_MODULE) is has_it


def test_a_java_that_lists_no_modules_has_them_all(tmp_path):
    assert has_module(tmp_path, VECTOR_MODULE)
    (tmp_path / "release").write_text('JAVA_VERSION="17.0.15"\n')
    assert has_module(tmp_path, VECTOR_MODULE)


def test_a_complete_java_is_used_as_it_is(tmp_path):
    home = place_java(tmp_path / "jdk", f"java.base {VECTOR_MODULE}")
    with adapt_java(home) as adapted:
        assert adapted == home


def test_a_java_without_the_vector_module_is_not_asked_for_it(tmp_path):
    home = place_java(tmp_path / "a folder", "java.base")
    options = ["-Da=b c", f"--add-modules={VECTOR_MODULE}", "--add-modules=java.sql", "", "$HOME"]
    with adapt_java(home) as adapted:
        answer = subprocess.run(
            [adapted / "bin" / "java", *options], capture_output=True, text=True, check=True
        )
    assert answer.stdout == "-Da=b c\n--add-modules=java.sql\n\n$HOME\n"
    assert not adapted.exists()
