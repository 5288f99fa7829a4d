"""Snapshots through folders: what is read is what was written, also by another program."""

from decimal import Decimal
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch import Event, Heartbeat, Program, depends, on
from anabranch.eventtime.channel_progress import Standing
from anabranch.eventtime.ledger import Ledger
from anabranch.model.shapes import WrittenShape
from anabranch.query import aggregate
from anabranch.reference.sequential import run
from anabranch.savepoints.drafts import begin_draft
from anabranch.savepoints.folders import open_savepoint
from anabranch.savepoints.manifest import SavepointError
from anabranch.savepoints.objects import (
    describe_savepoint,
    read_snapshot,
    write_entries,
    write_snapshot,
)
from anabranch.savepoints.snapshot import Snapshot
from anabranch.sources import Channel
from anabranch.state import Count, MapOf, Sum
from anabranch.state.durable.codec import make_codec
from anabranch.state.evolution.migration import EvolutionError
from anabranch.state.evolution.schemas import describe_snapshot
from anabranch.windows import Tumbling, Windowing
from tests.exact_text import write_exactly
from tests.microbatch.programs import Reading, levels
from tests.reference.test_resuming import ALL, assert_goes_on, draw_cut
from tests.savepoints.folders import list_tree
from tests.savepoints.programs import CHANNELS, FULL, Account, Order, list_items, shop, take


def assert_same(a: Snapshot, b: Snapshot) -> None:
    assert a == b
    assert write_exactly(a) == write_exactly(b)


@pytest.mark.parametrize("name", ALL)
@given(data=st.data())
@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_run_goes_on_from_a_folder(name, data, tmp_path_factory):
    program = ALL[name]
    channels, first, rest = data.draw(draw_cut(program))

    def carry(snapshot):
        path = tmp_path_factory.mktemp("savepoints") / "one"
        write_snapshot(snapshot, program, path, rows=data.draw(st.integers(1, 5)))
        return read_snapshot(path, program)

    if all(item.seq is not None for item in first):
        assert_goes_on(program, channels, first, rest, carry)
    else:
        snapshot = run(program, first, channels).snapshot()
        carried = carry(snapshot)
        assert write_exactly(carried.state) == write_exactly(snapshot.state)
        assert sorted(map(repr, carried.pending)) == sorted(map(repr, snapshot.pending))
        assert carried.standings == snapshot.standings


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_everything_comes_back_as_it_was(tmp_path, rows):
    for number, snapshot in enumerate([take(), take(3), FULL, Snapshot(shop.init)]):
        path = write_snapshot(snapshot, shop, tmp_path / f"{number}", rows=rows)
        assert_same(read_snapshot(path, shop), snapshot)


def test_a_savepoint_is_made_of_plain_tables(tmp_path):
    path = write_snapshot(take(), shop, tmp_path / "one", rows=3)
    assert list_tree(path) == [
        "manifest.json", "manifest.sha256", "pending", "pending/Order",
        "pending/Order/part-00000.parquet", "pending/Order/part-00001.parquet",
        "pending/Order/part-00002.parquet", "pending/Return", "pending/Return/part-00000.parquet",
        "state", "state/part-00000.parquet", "state/part-00001.parquet",
    ]  # fmt: skip
    savepoint = open_savepoint(path)
    state = savepoint.read_table("state/part-00000.parquet")
    assert state.column_names == ["key", *Account._fields]
    assert state["key"].to_pylist() == ["", "ann", "bob"]
    assert pa.types.is_decimal(state.schema.field("total").type)
    # A field of the event's own that is called `channel` keeps its name.
    returns = savepoint.read_table("pending/Return/part-00000.parquet")
    assert returns.column_names == ["@channel", "@seq", "time", "customer", "channel", "seq"]
    assert set(returns["@channel"].to_pylist()) == {"web"}
    assert savepoint.manifest.program == "shop"
    assert savepoint.manifest.runtime == "reference"


def test_the_same_snapshot_has_the_same_id(tmp_path):
    ids = {
        open_savepoint(write_snapshot(take(), shop, tmp_path / name)).manifest.id for name in "ab"
    }
    assert len(ids) == 1


def test_a_name_that_no_folder_can_have_is_refused(tmp_path):
    with pytest.raises(SavepointError):
        write_snapshot(take(), shop, tmp_path / "latest")
    assert list_tree(tmp_path) == []


def test_the_latest_can_be_asked_for(tmp_path):
    write_snapshot(take(3), shop, tmp_path / "a")
    write_snapshot(take(), shop, tmp_path / "b")
    assert_same(read_snapshot(tmp_path / "latest", shop), take())


# --- another program ------------------------------------------------------------------------------


class Wider(NamedTuple):
    """What `Account` has become: fields in another order, and one more."""

    orders: int = 0
    total: Decimal = Decimal(0)
    returned: int = 0


def test_a_program_with_another_bug_fixed_goes_on(tmp_path):
    items = list_items()
    path = write_snapshot(run(shop, items[:12], CHANNELS[:1]).snapshot(), shop, tmp_path / "one")
    louder = Program(
        on(Order, update=shop.initial.handlers[Order].update, output=lambda a, e: "thank you"),
        *[part for part in shop._parts if getattr(part, "event_type", None) is not Order],
        state=MapOf(WrittenShape(Account()), by="customer"),
        name="louder",
    )
    answer = run(louder, items[12:], CHANNELS[:1], start=read_snapshot(path, louder))
    assert answer.state == run(shop, items, CHANNELS[:1]).state
    assert "thank you" in answer.values


class Tally(NamedTuple):
    seen: int = 0


class Tally2(NamedTuple):
    seen: int = 0
    top: int = -1


Tally2.__name__ = "Tally"


def tally(record):
    return Program(
        on(Reading, update=lambda t, e: t._replace(seen=t.seen + 1)),
        depends(Reading, Reading, same="meter"),
        state=MapOf(WrittenShape(record()), by="meter"),
    )


def test_a_field_that_is_new_gets_its_default(tmp_path):
    items = [Event(Reading(n, n % 2, 1), "a", n) for n in range(6)]
    snapshot = run(tally(Tally), items, [Channel("a")]).snapshot()
    path = write_snapshot(snapshot, tally(Tally), tmp_path / "one")
    carried = read_snapshot(path, tally(Tally2))
    assert dict(carried.state) == {0: Tally2(3, -1), 1: Tally2(2, -1)}
    assert carried.pending == snapshot.pending
    assert type(carried.pending[0].data) is Reading
    assert (carried.standings, carried.ledger) == (snapshot.standings, snapshot.ledger)


def test_state_that_a_program_can_not_take_over_is_refused(tmp_path):
    path = write_snapshot(take(), shop, tmp_path / "one")
    with pytest.raises(EvolutionError):
        read_snapshot(path, levels)


def test_windows_of_another_size_are_refused(tmp_path, message):
    def windows(size):
        return aggregate(Reading, Windowing(Tumbling(size)), per="meter", total=Sum(), name="sums")

    path = write_snapshot(run(windows(5), []).snapshot(), windows(5), tmp_path / "one")
    read_snapshot(path, windows(5))
    with pytest.raises(SavepointError) as error:
        read_snapshot(path, windows(6))
    message("savepoint_with_other_windows", str(error.value))


# --- folders whose sums are right, and which are wrong all the same -------------------------------

counting = Program(
    on(Reading, update=lambda n, e: n + 1),
    depends(Reading, Reading, same="meter"),
    state=MapOf(Count(), by="meter"),
    name="counting",
)


def write_wrongly(path, change, program=counting):
    """Write a savepoint of two keys and a pending event, and let `change` add to the draft."""
    items = [Event(Reading(1, 1, 1), "a", 0), Event(Reading(2, 2, 1), "a", 1)]
    snapshot = run(
        program, [*items, Heartbeat(1, "a", 2)], [Channel("a", lateness=None)]
    ).snapshot()
    schema = describe_snapshot(
        program, snapshot.state, {}, [event.data for event in snapshot.pending]
    )
    with begin_draft(path) as draft:
        write_entries(draft, "state", schema.state, snapshot.state, make_codec(program))
        change(draft)
        return draft.seal(describe_savepoint(path.name, program, snapshot, schema))


def add(relative, **columns):
    return lambda draft: draft.write_table(relative, pa.table(columns))


PENDING = {"channel": ["a"], "seq": [1], "time": [2], "meter": [2], "amount": [1]}
WRONG = {
    "pending_is_missing": lambda draft: None,
    "pending_of_nobody": add("pending/Reading/part-0.parquet", **PENDING | {"channel": ["x"]}),
    "pending_without_a_channel": add(
        "pending/Reading/part-0.parquet", **{n: c for n, c in PENDING.items() if n != "channel"}
    ),
    "a_key_twice": add("state/part-1.parquet", key=[1], value=[9]),
    "a_column_more": add("state/part-1.parquet", key=[7], value=[9], more=[1]),
    "a_text_for_a_number": add("state/part-1.parquet", key=["x"], value=[9]),
}


@pytest.mark.parametrize("name", WRONG)
def test_tables_that_do_not_fit_the_manifest_are_refused(tmp_path, name, message):
    path = write_wrongly(tmp_path / "one", WRONG[name])
    with pytest.raises(SavepointError) as error:
        read_snapshot(path, counting)
    message(f"savepoint_with_{name}", str(error.value).replace(str(tmp_path), "FOLDER"))


def test_the_tables_of_that_test_fit_when_nothing_is_wrong(tmp_path):
    path = write_wrongly(tmp_path / "one", add("pending/Reading/part-0.parquet", **PENDING))
    snapshot = read_snapshot(path, counting)
    assert dict(snapshot.state) == {1: 1}
    assert snapshot.pending == (Event(Reading(2, 2, 1), "a", 1),)
    assert snapshot.standings == {"a": Standing(1, 2, 1)}
    assert snapshot.ledger == Ledger(2, 1, 0, 0, 0, 1)


def test_a_state_without_keys_is_one_row(tmp_path, message):
    program = Program(on(Reading, update=lambda n, e: n + 1), init=0)
    path = write_wrongly(
        tmp_path / "one", add("pending/Reading/part-0.parquet", **PENDING), program
    )
    assert read_snapshot(path, program).state == 1
    double = write_wrongly(tmp_path / "two", add("state/part-9.parquet", value=[9]), program)
    with pytest.raises(SavepointError) as error:
        read_snapshot(double, program)
    message("savepoint_with_two_states", str(error.value).replace(str(tmp_path), "FOLDER"))
