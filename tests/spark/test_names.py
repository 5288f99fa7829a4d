"""`import anabranch.spark` works, and stays cheap, where there is no PySpark."""

import json
import subprocess
import sys

import pytest

import anabranch.spark

PROBE = """
import json, sys
sys.modules["pyspark"] = None  # As if it were not installed.
import anabranch.spark
names = [getattr(anabranch.spark, name).__name__ for name in anabranch.spark.__all__]
found = {name.partition(".")[0] for name, module in sys.modules.items() if module is not None}
print(json.dumps({"names": names, "modules": sorted(found)}))
"""


def test_every_public_name_is_there_without_pyspark():
    answer = subprocess.run(
        [sys.executable, "-I", "-c", PROBE], capture_output=True, text=True, check=True
    )
    found = json.loads(answer.stdout)
    assert found["names"] == anabranch.spark.__all__
    assert {"pyspark", "pandas", "numpy"} & set(found["modules"]) == set()


def test_names_are_listed_before_they_are_asked_for():
    assert set(anabranch.spark.__all__) <= set(dir(anabranch.spark))


def test_another_name_is_refused_as_python_does():
    with pytest.raises(AttributeError, match=r"module 'anabranch.spark' has no attribute 'sprak'"):
        _ = anabranch.spark.sprak
