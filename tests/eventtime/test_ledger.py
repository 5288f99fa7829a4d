import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.errors import ConservationError
from anabranch.eventtime.ledger import Ledger

counts = st.tuples(*[st.integers(0, 10**12)] * 5)


@given(counts)
def test_a_ledger_balances_if_every_event_is_in_one_place(places):
    ledger = Ledger(sum(places), *places)
    assert ledger.balanced
    assert ledger.check("here") is ledger


@given(counts, st.integers().filter(bool))
def test_one_event_too_many_or_too_few_stops_the_run(places, wrong):
    with pytest.raises(ConservationError, match="events are not conserved"):
        Ledger(sum(places) + wrong, *places).check("here")


def test_a_ledger_reads_as_what_happened():
    assert str(Ledger(1_000_003, 1_000_000, 1, 1, 0, 1)) == (
        "1,000,003 input, 1,000,000 processed, 1 late, 1 rejected, 1 pending"
    )
    assert str(Ledger()) == "no input"
