"""A frame or a folder of which no row could become an event is refused when a run is made."""

from typing import NamedTuple

import pyarrow as pa
import pytest
from pyarrow import parquet

from anabranch import Program, on
from anabranch.errors import InputError
from anabranch.sources.files import Files


class Txn(NamedTuple):
    time: int
    account: str
    amount: float
    fee: float = 0.0


program = Program(on(Txn, update=lambda total, txn: total + txn.amount), init=0.0)

GOOD = "time bigint, account string, amount double"


@pytest.mark.spark
def test_a_frame_is_refused_with_the_column_and_both_types(spark):
    from anabranch.spark import Frame
    from anabranch.spark.runs import make_job

    def refuse(schema, **more):
        frame = spark.createDataFrame([], schema)
        with pytest.raises(InputError) as refusal:
            make_job(program, [Frame(frame, channel="north", **({"event": Txn} | more))])
        return refusal.value

    assert str(refuse("time timestamp, account string, amount decimal(10,2)")) == (
        "the frame of 'north' has no events of Txn: none of its rows would fit\n"
        "  expected: amount: float\n"
        "  got:      amount: decimal(10,2)\n"
        '  to do:    frame.withColumn("amount", col("amount").cast("double"))'
    )
    assert refuse("time string, account string, amount double").got == "time: string"
    assert refuse("time bigint, amount double").got == "no column 'account'"
    assert refuse(f"{GOOD}, n string", seq="n").got == "n: string"
    assert refuse(f"{GOOD}, n int", json_column="n").got == "n: int"
    assert (
        refuse(GOOD, event="Tx").what
        == "the source of 'north' has events that the program does not handle"
    )
    for schema in (
        GOOD,
        "time timestamp, account string, amount int, fee float, other map<int,int>",
    ):
        frame = spark.createDataFrame([], schema)
        assert make_job(program, [Frame(frame, channel="north", event=Txn)]).program is program


@pytest.mark.spark
def test_files_are_refused_by_the_schema_of_the_first_unless_the_last_fits(spark, tmp_path):

    from anabranch.spark.runs import make_job

    def write(name, amount):
        table = pa.table({"time": [1], "account": ["a"], "amount": pa.array([1], amount)})
        parquet.write_table(table, tmp_path / name)

    source = Files(tmp_path, ended=True, channel="north", event=Txn)
    make_job(program, [source])  # An empty folder tells nothing.
    write("1.parquet", pa.decimal128(10, 2))
    with pytest.raises(InputError) as refusal:
        make_job(program, [source])
    assert refusal.value.what == (
        f"file {tmp_path / '1.parquet'} has no events of Txn: none of its rows would fit"
    )
    assert refusal.value.got == "amount: decimal128(10, 2)"
    write("2.parquet", pa.float64())
    make_job(program, [source])


@pytest.mark.parametrize(("first", "sources", "got"), [
    (print, [], "a builtin_function_or_method"),
    (program, ["folder"], "'folder'"),
    (program, 7, "7"),
])  # fmt: skip
def test_what_is_no_program_and_no_source_is_refused(first, sources, got):
    from anabranch.spark.runs import run

    with pytest.raises(InputError, match=r"run\(\) takes a program|is not a source") as refusal:
        run(first, sources)
    assert refusal.value.got == got


def test_a_source_of_no_frame_is_refused():
    from anabranch.spark import Frame
    from anabranch.spark.runs import run

    with pytest.raises(InputError) as refusal:
        run(program, Frame("folder", channel="north", event=Txn))
    assert refusal.value.got == "'folder'"
