"""Which masters are taken for one of Spark's; no Spark is needed."""

import socket

import pytest

from anabranch.errors import InputError
from anabranch.spark.session.startup import check_master


@pytest.mark.parametrize(
    "master",
    [
        "local", "local[2]", "local[*]", "local[2, 3]", "local-cluster[2,1,600]", "yarn",
        "k8s://https://host:6443",
    ],
)  # fmt: skip
def test_what_spark_knows_is_let_through(master):
    check_master(master)


@pytest.mark.parametrize(
    "master",
    ["", "loacl[2]", "local[0]", "local[two]", "spark://host", "spark://a b:7077", "http://h:1"],
)
def test_anything_else_is_refused_before_a_jvm_starts(master):
    with pytest.raises(InputError, match="is not a Spark master"):
        check_master(master)


def test_the_refusal_says_what_a_master_looks_like(message):
    with pytest.raises(InputError) as refusal:
        check_master("loacl[2]")
    message("master_is_misspelt", str(refusal.value))


def test_of_several_masters_one_has_to_answer():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # Bound and not listening: nobody answers here.
        up, down = server.getsockname()[1], closed.getsockname()[1]
        check_master(f"spark://127.0.0.1:{up}")
        check_master(f"spark://127.0.0.1:{down},127.0.0.1:{up}")
        with pytest.raises(InputError, match="no Spark master answers") as refusal:
            check_master(f"spark://127.0.0.1:{down}")
    assert refusal.value.got.startswith(f"127.0.0.1:{down}: ")
