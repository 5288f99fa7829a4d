import pytest

from anabranch import Event
from anabranch.errors import InputError
from anabranch.speculation.barrier import Barrier, hold_back
from anabranch.speculation.output_changes import OutputChange
from tests.speculation.test_programs import Report


def emitted(op, time, value, index=0):
    return OutputChange(op, ((time, 0, "s", time), index), value, Event(Report(time), "s", time))


def settle(moments):
    """Return the settled outputs of a whole run: of what was said, and the watermark after it."""
    barrier = Barrier()
    return [row for rows, watermark in moments for row in hold_back(barrier, rows, watermark)]


def test_what_is_taken_back_is_never_seen_and_the_rest_comes_in_order():
    moments = [
        ([emitted(1, 5, "e"), emitted(1, 2, "wrong"), emitted(1, 9, "i")], 1),
        ([emitted(-1, 2, "wrong"), emitted(1, 2, "b"), emitted(1, 2, "b too", index=1)], 2),
        ([emitted(1, 3, "c")], 2),
        ([], 8),
    ]
    assert [(row.id[0][0], row.value) for row in settle(moments)] == [
        (2, "b"), (2, "b too"), (3, "c"), (5, "e"),
    ]  # fmt: skip


def test_an_output_at_the_watermark_is_settled_and_the_next_is_not():
    assert settle([([emitted(1, 4, "at"), emitted(1, 5, "after")], 4)]) == [emitted(1, 4, "at")]


def test_a_replay_of_what_was_released_is_dropped():
    barrier = Barrier()
    for _ in range(2):
        barrier.take(1, (1, 0), "a")
        barrier.take(1, (2, 0), "b")
        barrier.take(-1, (2, 0), "b")
        barrier.take(1, (2, 0), "B")
        assert barrier.release((3,)) in ([((1, 0), "a"), ((2, 0), "B")], [])
    assert barrier.last == (2, 0)
    assert barrier.dump() == ((2, 0), [])


@pytest.mark.parametrize("value", ["other", 1.0])
def test_a_retraction_of_what_was_never_said_is_refused(value):
    barrier = Barrier()
    barrier.take(1, (1,), 1)
    with pytest.raises(InputError, match="has no output to retract"):
        barrier.take(-1, (1,), value)
    with pytest.raises(InputError, match=r"got: +nothing"):
        barrier.take(-1, (2,), value)
