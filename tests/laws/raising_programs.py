"""Programs with a function that raises on every event, and one that raises on some."""

import operator
from typing import NamedTuple

from anabranch import Program, depends, on
from anabranch.state import MapOf, Sum


class Txn(NamedTuple):
    time: int
    account: str
    amount: int


class Report(NamedTuple):
    time: int
    account: str


class Wake(NamedTuple):
    time: int


misspelt_field = Program(
    on(Txn, update=lambda total, txn: total + txn.amout),
    on(Report, output=lambda total, report: (report.account, total)),
    depends(Report, Txn, Report, same="account"),
    state=MapOf(Sum(), by="account"),
)
misspelt_output = Program(
    on(Txn, update=lambda total, txn: total + txn.amount),
    on(Report, output=lambda total, report: totl),  # noqa: F821 - the mistake
    init=0,
)
builtin_update = Program(on(Txn, update=operator.add), init=0)
misspelt_due = Program(
    on(Txn, update=lambda total, txn: total + txn.amount),
    on(Wake, due=lambda total: total.when, output=lambda total, wake: total),
    init=0,
)
sometimes = Program(
    on(Txn, update=lambda total, txn: total + 100 // txn.amount),
    on(Report, output=lambda total, report: 1 // total),
    init=0,
)
