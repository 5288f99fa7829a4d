import re
from itertools import combinations, pairwise
from xml.etree import ElementTree as ET

import pytest

from anabranch import take
from anabranch.model.targets import load
from anabranch.plan.drawing.plan_picture import draw
from anabranch.plan.drawing.text_width import estimate_width
from anabranch.plan.optimizers import OPTIMIZERS
from anabranch.plan.pricing.rates import Load, Rates, declare_rates, read_rates
from anabranch.plan.tree import Plan, PlanNode

SVG = "{http://www.w3.org/2000/svg}"
NAMES = (
    "max_temperature", "key_counter", "inc_dec", "smart_home", "fraud", "taxi_tips", "value_barrier"
)  # fmt: skip


def example(name):
    program = load(f"examples/{name}.py:{name}")
    return program, read_rates(program, f"docs/rates/{name}.json")


def barrier_of(count, optimizer="best"):
    program = load("examples/value_barrier.py:value_barrier")
    rows = [{"type": "Barrier", "channel": "b", "rate": 1, "machine": "b"}]
    rows += [
        {"type": "Value", "channel": f"s{n}", "rate": 300_000, "machine": f"m{n}"}
        for n in range(count)
    ]
    rates = declare_rates(program, rows)
    return program, OPTIMIZERS[optimizer](program, rates, ()), rates


def crowded():
    """One node with fifteen slices of long names, and one with a long channel."""
    program = load("examples/key_counter.py:key_counter")
    inc, read = program.event_type("Inc"), program.event_type("Read")
    many = [take(inc, key=f"customer number {n}") for n in range(15)]
    far = take(inc, key="x", channel="a channel with a very long name indeed, longer than a box")
    root = PlanNode(
        children=(PlanNode(*many), PlanNode(far)), machine="a machine with a long name too"
    )
    rates = Rates([Load(part, 10) for part in (*many, far)] + [Load(take(read), 0.5)])
    return program, Plan(root), rates


def drawings():
    for name in NAMES:
        program, rates = example(name)
        for optimizer in ("best", "greedy", "sequential"):
            yield f"{name} {optimizer}", (program, OPTIMIZERS[optimizer](program, rates, ()), rates)
    for count in (9, 32, 64):
        yield f"barrier of {count}", barrier_of(count)
    yield "a ladder", barrier_of(32, "greedy")
    yield "crowded", crowded()


ALL = dict(drawings())


@pytest.fixture(params=ALL)
def case(request):
    return ALL[request.param]


def parse(drawing):
    root = ET.fromstring(drawing)
    return root, [group for group in root.iter(f"{SVG}g") if group.get("data-node")]


def rectangles(element):
    return [
        tuple(float(rect.get(key)) for key in ("x", "y", "width", "height"))
        for rect in element.iter(f"{SVG}rect")
    ]


def span(text):
    """Return where a line of text begins and ends, by estimate."""
    size = float(text.get("font-size"))
    width = estimate_width(text.text, size, bold=text.get("font-weight") == "600")
    for part in text.iter(f"{SVG}tspan"):
        width += float(part.get("dx")) + estimate_width(part.text, float(part.get("font-size")))
    x = float(text.get("x"))
    start = {"start": x, "middle": x - width / 2, "end": x - width}[
        text.get("text-anchor", "start")
    ]
    return start, start + width


def test_every_worker_is_in_the_drawing_once(case):
    _, groups = parse(draw(*case))
    drawn = [path for group in groups for path in group.get("data-node").split()]
    assert sorted(drawn) == sorted(case[1].nodes())


def test_every_text_of_a_worker_fits_a_box_of_it(case):
    _, groups = parse(draw(*case))
    for group in groups:
        boxes = rectangles(group)
        for text in group.iter(f"{SVG}text"):
            start, end = span(text)
            y = float(text.get("y"))
            assert any(
                x <= start and end <= x + w + 0.5 and top <= y <= top + h for x, top, w, h in boxes
            ), ET.tostring(text, "unicode")


def test_nothing_lies_outside_the_sheet(case):
    root, _ = parse(draw(*case))
    width, height = float(root.get("width")), float(root.get("height"))
    for x, y, w, h in rectangles(root):
        assert x >= 0
        assert y >= 0
        assert x + w <= width
        assert y + h <= height
    for text in root.iter(f"{SVG}text"):
        start, end = span(text)
        assert 0 <= start < end <= width
        assert 0 < float(text.get("y")) < height


def test_boxes_do_not_overlap(case):
    _, groups = parse(draw(*case))
    boxes = [max(rectangles(group), key=lambda box: box[2] * box[3]) for group in groups]
    for (ax, ay, aw, ah), (bx, by, bw, bh) in combinations(boxes, 2):
        assert ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay


def test_labels_beside_and_below_workers_do_not_run_into_each_other(case):
    root, _ = parse(draw(*case))
    lines = {}
    for text in root.iter(f"{SVG}text"):
        lines.setdefault(text.get("y"), []).append(span(text))
    for spans in lines.values():
        for (_, end), (start, _) in pairwise(sorted(spans)):
            assert end <= start + 1


def test_a_drawing_is_the_same_every_time(case):
    assert draw(*case) == draw(*case)


def test_a_drawing_asks_for_nothing_from_elsewhere(case):
    drawing = draw(*case)
    assert re.findall(r"https?://[^\"]+", drawing) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"\bid=|<script|<image|@import|url\(", drawing)


def test_the_published_plan_is_labelled():
    program, rates = example("key_counter")
    drawing = draw(program, OPTIMIZERS["greedy"](program, rates, ()), rates, title="A & <B>")
    root, groups = parse(drawing)
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert texts[0] == "A & <B>"
    assert texts[1] == "greedy plan: 5 nodes on 4 machines, 625 events/s"
    assert re.fullmatch(r"1\.\d+ ms of work for each second of stream", texts[2])
    assert "fork · join 10/s" in texts
    assert "independent" in texts
    assert [text for text in texts if text in rates.machines][-4:] == ["E0", "E1", "E2", "E3"]
    chief = next(group for group in groups if group.get("data-node") == "0.0")
    assert "ab-chief" in ET.tostring(chief, "unicode")
    assert chief.find(f"{SVG}title").text == "0.0: Read[key=2]"


def test_state_types_are_shown_where_there_are_several():
    program, rates = example("smart_home")
    drawing = draw(program, OPTIMIZERS["best"](program, rates, ()), rates)
    assert drawing.count(">rooms<") == 2
    assert ">gauge<" in drawing
    assert ">rooms: fork · join 0.017/s<" in drawing
    assert ">state<" not in draw(*ALL["key_counter best"])


@pytest.mark.parametrize(("count", "stacks"), [(8, 0), (16, 8), (32, 8), (64, 8)])
def test_many_alike_become_stacks(count, stacks):
    root, _ = parse(draw(*barrier_of(count)))
    texts = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert texts.count(f"×{count // 8}") == stacks
    assert float(root.get("width")) < 2000


def test_what_a_worker_has_too_much_of_is_counted():
    drawing = draw(*crowded())
    assert re.search(r">\+\d+ more<", drawing)
    assert "customer number 14" in drawing, "the whole list is in the title"


def test_a_busier_edge_is_wider():
    program, plan, _ = barrier_of(2)
    widths = []
    for rate in (1, 1000):
        rows = [{"type": "Barrier", "channel": "b", "rate": rate}]
        rows += [{"type": "Value", "channel": f"s{n}", "rate": 1e5} for n in range(2)]
        drawing = draw(program, plan, declare_rates(program, rows))
        widths.append(float(re.search(r'C.*?stroke-width="([\d.]+)"', drawing)[1]))
    assert widths[0] < widths[1]


def test_the_documented_pictures_and_texts_are_those_of_today():
    import importlib.util

    spec = importlib.util.spec_from_file_location("draw_docs", "tools/draw_docs.py")
    draw_docs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(draw_docs)
    cure = "run: make pictures"
    for name, drawing in draw_docs.draw_pictures().items():
        assert (draw_docs.DOCS / "images" / name).read_text(encoding="utf-8") == drawing, cure
    page = draw_docs.PAGE.read_text(encoding="utf-8")
    assert draw_docs.fill_page(page) == page, cure
    assert set(draw_docs.SHOWN) == {found[2] for found in draw_docs.BLOCK.finditer(page)}
