"""What notebooks show: small tables in which every text is escaped."""

import re
from html.parser import HTMLParser
from typing import NamedTuple

import pytest

import anabranch
from anabranch import Program, depends, on
from anabranch.local import evaluate, run
from anabranch.plan import Plan, PlanNode
from anabranch.sources import InMemory

SCRIPT = "<script>alert(1)</script>"


class Paid(NamedTuple):
    time: int
    who: str


class Asked(NamedTuple):
    time: int


def tell_last(last: str, paid: Paid) -> str:
    return f"{paid.who} after {last}"


totals = Program(
    on(Paid, update=lambda last, paid: max(last, paid.who), output=tell_last),
    on(Asked, output=lambda last, asked: last),
    depends(Paid, Paid, Asked),
    init=SCRIPT,
    name=SCRIPT,
)
EVENTS = [Paid(n, SCRIPT) for n in range(1, 13)]


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.tags, self.cells = [], [], []

    def handle_starttag(self, tag, attributes):
        assert not attributes
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.cells.append(data)


def read(value) -> Reader:
    reader = Reader()
    reader.feed(value._repr_html_())
    reader.close()
    assert reader.open == []
    return reader


def evaluate_them():
    import pyarrow as pa

    table = pa.table({"time": [e.time for e in EVENTS], "who": [e.who for e in EVENTS]})
    return InMemory(table, event=Paid, channel="input")


@pytest.mark.parametrize(
    ("make", "rows", "text"),
    [
        (lambda: totals, 3, SCRIPT),
        (lambda: Plan(PlanNode(Paid, Asked), SCRIPT), 2, SCRIPT),
        (lambda: anabranch.run(totals, EVENTS), 11, f"{SCRIPT} after {SCRIPT}"),
        (lambda: evaluate(totals, evaluate_them()), 11, f"{SCRIPT} after {SCRIPT}"),
    ],
    ids=["program", "plan", "answer", "evaluation"],
)
def test_what_a_notebook_shows_is_small_and_escaped(make, rows, text):
    page = read(make())
    assert {*page.tags} <= {"p", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert page.tags.count("tr") == rows, "a head, and at most ten rows"
    assert any(text in cell for cell in page.cells)


def test_a_run_and_its_progress_show_the_ledger():
    handle = run(totals, evaluate_them())
    handle.wait()
    assert "12 processed" in "".join(read(handle.progress).cells)
    shown = "".join(read(handle).cells)
    assert re.search(r"ended: batch 0 .*12 processed", shown)
    assert SCRIPT in shown
