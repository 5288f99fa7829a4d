"""A fraud rule per account on JSON lines, as one writes it for spark-submit; made to be killed.

A small payment that is followed by a large one of the same account within a minute is suspicious.
Arguments: input, output, checkpoint, and how many files a batch takes.
"""

import sys
from typing import NamedTuple

from anabranch import Program, depends, on
from anabranch.sinks import write_directory
from anabranch.sources import Files
from anabranch.spark import run, start_session
from anabranch.state import MapOf, Value

SMALL, LARGE, MINUTE_MS = 100, 50_000, 60_000
LATENESS_MS = 5_000


class Payment(NamedTuple):
    time: int
    id: str
    account: str
    cents: int


class Account(NamedTuple):
    """What an account's rule remembers: its last payment if that was small, and the ids it has seen lately."""

    tried: int | None = None
    seen: tuple[str, ...] = ()


class Alert(NamedTuple):
    account: str
    payment: str
    cents: int
    after_ms: int


def warn(account: Account, payment: Payment) -> Alert | None:
    if payment.id in account.seen or account.tried is None or payment.cents < LARGE:
        return None
    after = payment.time - account.tried
    return Alert(payment.account, payment.id, payment.cents, after) if after <= MINUTE_MS else None


def note(account: Account, payment: Payment) -> Account:
    if payment.id in account.seen:
        return account
    tried = payment.time if payment.cents < SMALL else None
    return Account(tried, (*account.seen[-7:], payment.id))


fraud = Program(
    on(Payment, update=note, output=warn),
    depends(Payment, Payment, same="account"),
    state=MapOf(Value(Account()), by="account"),
)

if __name__ == "__main__":
    folder, output, checkpoint, files_per_batch = sys.argv[1:]
    spark = start_session(name="fraud", master="local[2]", ui=False)
    source = Files(
        folder, format="json", files_per_batch=int(files_per_batch), lateness=LATENESS_MS
    )
    result = run(fraud, source, spark=spark, shards=2)
    query = write_directory(result, output=output, checkpoint=checkpoint, available_now=True)
    query.awaitTermination()
    spark.stop()
