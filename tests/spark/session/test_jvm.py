import subprocess

import pyspark
import pytest

from anabranch.spark.session.jvm import VECTOR_MODULE, adapt_java, can_unset_home, has_module


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


@pytest.mark.parametrize("modules", ["java.base", f"java.base {VECTOR_MODULE}"])
def test_a_jvm_forgets_where_spark_is_but_its_launcher_does_not(tmp_path, modules):
    home = place_java(tmp_path / "jdk", modules)
    (home / "bin" / "java").write_text('#!/bin/sh\necho "$SPARK_HOME:" "$@"\n')

    def start(adapted, *options):
        command = [adapted / "bin" / "java", *options]
        done = subprocess.run(
            command, env={"SPARK_HOME": "here"}, capture_output=True, text=True, check=True
        )
        return done.stdout

    with adapt_java(home, unset_home=True) as adapted:
        launcher = "org.apache.spark.launcher.Main"
        assert start(adapted, "-cp", "a", launcher, "b") == f"here: -cp a {launcher} b\n"
        assert start(adapted, "-cp", "a", "SparkSubmit") == ": -cp a SparkSubmit\n"


@pytest.mark.parametrize(
    "master", ["yarn", "k8s://x", "spark://a:1", "local-cluster[1,1,1]", "local[2]x", ""]
)
def test_only_a_jvm_that_has_its_workers_in_itself_forgets_where_spark_is(master):
    assert can_unset_home("local[2]")
    assert can_unset_home("local")
    assert not can_unset_home(master)


def test_another_spark_than_the_one_that_is_installed_is_not_forgotten(monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert not can_unset_home("local[2]")


@pytest.mark.spark
def test_workers_import_pyspark_from_where_it_is_compiled(spark):
    found = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__)
    assert found.collect() == [pyspark.__file__]
