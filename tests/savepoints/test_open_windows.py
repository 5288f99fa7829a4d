"""Windows that are open go on with an aggregate more; `state diff` and a restore say the same of it."""

import json
from typing import NamedTuple

import pytest

from anabranch import Event
from anabranch.cli.main import run_command
from anabranch.eventtime.channels import Channel
from anabranch.eventtime.windows.panes import Windowing
from anabranch.eventtime.windows.triggers import AfterWatermark
from anabranch.eventtime.windows.window_types import Sessions, Sliding, Tumbling
from anabranch.query import aggregate
from anabranch.reference.sequential import run
from anabranch.savepoints.manifest import SavepointError
from anabranch.savepoints.objects import check_windows, read_snapshot, write_snapshot
from anabranch.savepoints.open_windows import judge_windows
from anabranch.savepoints.program_fingerprint import fingerprint_program
from anabranch.state import Count, Max, Mean, Min, Sum, TopK

CHANNELS = (Channel("a"),)


class Sale(NamedTuple):
    time: int
    shop: str
    price: int


MORE = {"top": (Max(), "price"), "mean": (Mean(), "price"), "best": (TopK(2), "price")}


def sales(window, **folds):
    return aggregate(Sale, window, per="shop", **folds)


def sell(*pairs, start=0):
    return [Event(Sale(time, "x", price), "a", start + n) for n, (time, price) in enumerate(pairs)]


@pytest.mark.parametrize("window", [Tumbling(10), Sliding(10, every=5), Sessions(4)], ids=repr)
def test_a_new_aggregate_begins_in_open_windows_with_what_comes(window, tmp_path):
    old, new = sales(window, n=Count()), sales(window, n=Count(), **MORE)
    begun = run(old, sell((1, 70), (2, 80), (3, 5)), CHANNELS)
    path = write_snapshot(begun.snapshot(), old, tmp_path / "one")
    resumed = run(
        new,
        sell((4, 6), (30, 1), (31, 2), (50, 0), start=3),
        CHANNELS,
        start=read_snapshot(path, new),
    )
    found = {(r.start, r.end): tuple(r.value) for r in (o.value for o in resumed.outputs)}
    first = min(found)
    # Time 3 was pending, so it is among what comes; times 1 and 2 are not.
    assert found[first][0] == 4
    assert found[first][1:] == (6, 5.5, (6, 5))
    later = min(key for key in found if key[0] >= 10)
    assert found[later][1:] == (2, 1.5, (2, 1))


@pytest.mark.parametrize(
    ("before", "after", "status"),
    [
        ({"n": Count()}, {"n": Count()}, "same"),
        ({"n": Count()}, {"n": Count(), "top": (Max(), "price")}, "automatic"),
        ({"n": Count()}, {"top": (Max(), "price"), "n": Count()}, "automatic"),
        ({"n": (Sum(), "price")}, {"n": (Sum(), lambda s: s.price), "k": Count()}, "refused"),
        ({"n": Count(), "low": (Min(), "price")}, {"n": Count()}, "refused"),
        ({"n": (Max(), "price")}, {"n": (Min(), "price"), "k": Count()}, "refused"),
    ],
    ids=[
        "the same",
        "one more",
        "one more in front",
        "another source",
        "one less",
        "another state",
    ],
)
def test_state_diff_and_restore_give_one_verdict(before, after, status, tmp_path, capsys):
    old, new = sales(Tumbling(10), **before), sales(Tumbling(10), **after)
    path = write_snapshot(
        run(old, sell((1, 7), (2, 8)), CHANNELS).snapshot(), old, tmp_path / "one"
    )
    told = [verdict.status for verdict in judge_windows(fingerprint_program(old), new)]
    assert told == [status]
    if status == "refused":
        with pytest.raises(SavepointError, match="made with other windows"):
            read_snapshot(path, new)
    else:
        read_snapshot(path, new)
    texts = {"Count()": Count(), "(Max(), 'price')": (Max(), "price")}
    written = {name: text for name, fold in after.items() for text in texts if texts[text] == fold}
    if len(written) < len(after):
        return
    file = tmp_path / "now.py"
    file.write_text(
        "from typing import NamedTuple\nfrom anabranch.eventtime.windows.window_types import Tumbling\n"
        "from anabranch.query import aggregate\nfrom anabranch.state import Count, Max\n\n"
        "class Sale(NamedTuple):\n    time: int\n    shop: str\n    price: int\n\n"
        f"sales = aggregate(Sale, Tumbling(10), per='shop', "
        f"{', '.join(f'{name}={text}' for name, text in written.items())})\n"
    )
    code = run_command(["state", "diff", str(path), str(file), "--json"])
    emitted = json.loads(capsys.readouterr().out)
    assert (code, emitted["compatible"]) == ((1, False) if status == "refused" else (0, True))
    assert status in {v["status"] for v in emitted["verdicts"] if v["place"].startswith("windows")}


def test_windows_that_take_back_or_are_kept_in_columns_take_no_more(tmp_path):
    def taking_back(**folds):
        return sales(Windowing(Tumbling(10), AfterWatermark(), accumulation="retracting"), **folds)

    told = judge_windows(
        fingerprint_program(taking_back(n=Count())), taking_back(n=Count(), **MORE)
    )
    assert [verdict.status for verdict in told] == ["refused"]
    old, new = sales(Tumbling(10), n=Count()), sales(Tumbling(10), n=Count(), top=MORE["top"])
    made_by = fingerprint_program(old) | {"state": "in columns"}
    (verdict,) = judge_windows(made_by, new)
    assert (verdict.status, verdict.place) == ("refused", "windows, top")
    path = write_snapshot(run(old, []).snapshot(), old, tmp_path / "one")
    manifest = json.loads((path / "manifest.json").read_text())
    assert manifest["fingerprint"]["windows"] == made_by["windows"]

    class Kept(NamedTuple):
        fingerprint: dict

    with pytest.raises(SavepointError, match="kept in columns"):
        check_windows(Kept(made_by), new)
