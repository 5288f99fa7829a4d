"""Objects made without looking for garbage: the collector runs again afterwards."""

import gc

import pytest

from anabranch.microbatch.columns.allocator import pause_collection


def test_the_collector_rests_within_and_runs_afterwards():
    with pause_collection():
        assert not gc.isenabled()
        with pause_collection():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_collector_runs_again_after_an_error():
    with pytest.raises(ValueError, match="x"), pause_collection():
        raise ValueError("x")
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with pause_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
