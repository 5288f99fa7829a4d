"""Drawings: a plan as an SVG for a slide.

The root is at the top. A box is a node, dark if a marker in it synchronises the nodes below; a pill
only joins and forks. The width of a line shows how often states are sent; arrows are incoming events.
"""

from __future__ import annotations

from math import log10
from typing import NamedTuple

from anabranch.model.program import Program
from anabranch.plan.drawing.boxes import Figure, IncomingArrow, build_figures, list_arrivals
from anabranch.plan.drawing.svg import MACHINE_COLOURS, Sheet
from anabranch.plan.drawing.text_width import estimate_width, shorten
from anabranch.plan.pricing.cost import price
from anabranch.plan.pricing.duties import (
    count_nodes,
    list_duties,
    name_duration,
    name_rate,
    name_share,
)
from anabranch.plan.pricing.rates import Rates
from anabranch.plan.tree import Plan

BOX = (132.0, 208.0)
"""The minimum and maximum width of a box; all boxes of a drawing are equally wide."""

GAP, DROP, MARGIN, HEAD = 28.0, 64.0, 36.0, 104.0
PILL = 28.0
ROW, TAG, SMALL, TINY = 19.0, 14.0, 12.0, 11.0
MOST_ROWS = 4
ARROW = 34.0
LEAST_WIDTH = 640.0
_PAD = 14.0


class _Spot(NamedTuple):
    """A figure's position: its centre line, its top, and its size."""

    figure: Figure
    x: float
    y: float
    width: float
    height: float

    @property
    def bottom(self) -> float:
        return self.y + self.height


def draw(program: Program, plan: Plan, rates: Rates, title: str = "") -> str:
    """Return an SVG of a plan at these rates."""
    return _Drawing(program, plan, rates).write(title or program.name)


class _Drawing:
    def __init__(self, program: Program, plan: Plan, rates: Rates) -> None:
        self.program = program
        self.plan = plan
        self.rates = rates
        self.sheet = Sheet()
        self.root = build_figures(list_duties(program, plan, rates))
        self.markers = {tag.__name__ for tag in program.markers}
        self.several = len({node.state for node in plan.nodes().values()}) > 1
        placed = [node.machine for node in plan.nodes().values() if node.machine]
        arriving = [load.machine for load in rates.loads] if placed else []
        self.machines = sorted({*placed, *arriving}, key=_natural)
        self.colours = {
            machine: MACHINE_COLOURS[number % len(MACHINE_COLOURS)]
            for number, machine in enumerate(self.machines)
        }
        self.box = self._choose_width()
        self.width = max(LEAST_WIDTH, self.root.columns() * (self.box + GAP) - GAP + 2 * MARGIN)

    def write(self, title: str) -> str:
        """Return the finished drawing."""
        summary, work = self._summarise()
        room = self.width - 2 * MARGIN
        one_line = estimate_width(f"{summary} · {work}", 13) <= room
        lines = [f"{summary} · {work}"] if one_line else [summary, work]
        spots = self._lay_out(HEAD + 19 * (len(lines) - 1))
        foot = max(self._foot(spot) for spot in spots.values())
        legend, height = self._lay_legend(foot + 30)
        self.sheet.add_box(
            (0.5, 0.5), (self.width - 1, height - 1), ink="card", rim="rim", radius=14
        )
        self.sheet.add_text((MARGIN, 46), shorten(title, room, 22, bold=True), 22, bold=True)
        for number, line in enumerate(lines):
            self.sheet.add_text((MARGIN, 70 + 19 * number), shorten(line, room, 13), 13, ink="soft")
        for spot in spots.values():
            self._draw_edges(spot, [spots[id(child)] for child in spot.figure.children])
        for spot in spots.values():
            self._draw_figure(spot)
        for item in legend:
            self._draw_legend(*item)
        return self.sheet.write(self.width, height, title, summary)

    def _summarise(self) -> tuple[str, str]:
        cost = price(self.program, self.plan, self.rates)
        events = name_rate(self.rates.total).replace("/s", " events/s")
        work = f"{name_duration(cost.total)} of work for each second of stream"
        return f"{self.plan.name} plan: {count_nodes(self.plan)}, {events}", work

    def _choose_width(self) -> float:
        needed = BOX[0]
        for figure in self.root.walk():
            for tag, cut in figure.lines()[:MOST_ROWS]:
                name = self._mark(tag)
                wide = estimate_width(name, TAG, bold=True) + estimate_width(f"  {cut}", SMALL)
                needed = max(needed, min(wide, BOX[1]) + 2 * _PAD)
            foot = figure.describe_rate() + name_share(figure.busy) + self._name_machine(figure)
            needed = max(needed, estimate_width(foot, TINY, bold=True) + 2 * _PAD + 34)
        return min(needed, BOX[1])

    def _mark(self, tag: str) -> str:
        return f"◆ {tag}" if tag in self.markers else tag

    def _name_machine(self, figure: Figure) -> str:
        if len(self.machines) < 2 or not figure.machines:
            return ""
        many = len(figure.machines)
        return figure.machines[0] if many == 1 else f"{many} machines"

    def _lay_out(self, top: float) -> dict[int, _Spot]:
        """Return the position of each figure: leaves side by side, parents centred above their children."""
        centres: dict[int, float] = {}
        tree = self.root.columns() * (self.box + GAP) - GAP
        start = (self.width - tree) / 2 + self.box / 2
        leaves = [figure for figure in self.root.walk() if not figure.children]
        for number, leaf in enumerate(leaves):
            centres[id(leaf)] = start + number * (self.box + GAP)
        for figure in reversed([*self.root.walk()]):
            if figure.children:
                below = [centres[id(child)] for child in figure.children]
                centres[id(figure)] = sum(below) / len(below)
        spots: dict[int, _Spot] = {}
        level = [self.root]
        while level:
            tall = max(self._height(figure) for figure in level)
            for figure in level:
                height = self._height(figure)
                wide = self._pill_width(figure) if figure.bare else self.box
                y = top + (tall - height) / 2 if figure.bare else top
                spots[id(figure)] = _Spot(figure, centres[id(figure)], y, wide, height)
            level = [child for figure in level for child in figure.children]
            top += tall + DROP
        return spots

    def _height(self, figure: Figure) -> float:
        if figure.bare:
            return PILL
        return 12 + ROW * len(self._rows(figure)) + 32

    def _foot(self, spot: _Spot) -> float:
        return spot.bottom + (0 if spot.figure.children else ARROW + 34)

    def _rows(self, figure: Figure) -> list[tuple[str, str]]:
        """Return the lines of a box: a type and its cut, or a cut alone where both are too wide."""
        rows: list[tuple[str, str]] = []
        room = self.box - 2 * _PAD
        lines = figure.lines()
        for number, (tag, cut) in enumerate(lines):
            name = shorten(self._mark(tag), room, TAG, bold=True)
            left = room - estimate_width(name + " ", TAG, bold=True)
            fits = estimate_width(cut, SMALL) <= left
            new = [(name, cut)] if fits else [(name, ""), ("", shorten(cut, room, SMALL))]
            rest = len(lines) - number
            if len(rows) + len(new) > MOST_ROWS - (rest > 1):
                return [*rows, ("", f"+{rest} more")]
            rows += new
        return rows

    def _pill_text(self, figure: Figure) -> str:
        syncs = sum(duty.syncs for duty in figure.duties)
        words = f"fork · join {name_rate(syncs)}" if syncs else "independent"
        return f"{figure.node.state}: {words}" if self.several else words

    def _pill_width(self, figure: Figure) -> float:
        return estimate_width(self._pill_text(figure), TINY) + 38

    def _draw_edges(self, spot: _Spot, below: list[_Spot]) -> None:
        """Draw the lines from a node to its children, with their labels."""
        if not below:
            return
        syncs = sum(duty.syncs for duty in spot.figure.duties)
        start = spot.bottom + (0 if spot.figure.bare else 26)
        line = 1.25 + min(5.0, 1.1 * log10(1 + syncs))
        for child in below:
            lift = 10 if child.figure.count > 1 and not child.figure.bare else 0
            x, y = child.x + lift, child.y - lift
            middle = (start + y) / 2
            path = (
                f"M{spot.x:.1f} {start:.1f}C{spot.x:.1f} {middle:.1f} "
                f"{x:.1f} {middle:.1f} {x:.1f} {y:.1f}"
            )
            self.sheet.add_path(path, line=line, dash="" if syncs else "3 5")
        if spot.figure.bare:
            return
        text = f"fork · join {name_rate(syncs)}" if syncs else "independent"
        wide = estimate_width(text, TINY) + 18
        self.sheet.add_path(f"M{spot.x:.1f} {spot.bottom:.1f}V{start:.1f}", line=line)
        self.sheet.add_box((spot.x - wide / 2, spot.bottom + 9), (wide, 20), ink="label", radius=10)
        middle_of_text = (spot.x, spot.bottom + 23)
        self.sheet.add_text(middle_of_text, text, TINY, ink="soft", anchor="middle")

    def _draw_figure(self, spot: _Spot) -> None:
        figure = spot.figure
        slices = ", ".join(str(part) for duty in figure.duties for part in duty.node.slices)
        self.sheet.open(f"{figure.paths}: {slices or 'joins and forks'}", node=figure.paths)
        if figure.bare:
            self._draw_pill(spot)
        else:
            self._draw_box(spot)
        self.sheet.close()
        if figure.children:
            self._draw_side_arrivals(spot)
        else:
            self._draw_arrivals(spot)

    def _draw_pill(self, spot: _Spot) -> None:
        left = spot.x - spot.width / 2
        at, size = (left, spot.y), (spot.width, spot.height)
        self.sheet.add_box(at, size, ink="label", rim="edge", radius=PILL / 2)
        self._draw_dot(left + 16, spot.y + PILL / 2, self._colour(spot.figure))
        at = (left + 27, spot.y + PILL / 2 + 4)
        self.sheet.add_text(at, self._pill_text(spot.figure), TINY, ink="soft")

    def _draw_box(self, spot: _Spot) -> None:
        figure, left = spot.figure, spot.x - spot.width / 2
        chief = any(duty.synchronises for duty in figure.duties)
        ink, soft = ("pale", "haze") if chief else ("ink", "soft")
        size = (spot.width, spot.height)
        for step in (2, 1) if figure.count > 1 else ():
            self.sheet.add_box((left + 5 * step, spot.y - 5 * step), size, ink="box", rim="edge")
        self.sheet.add_box(
            (left, spot.y), size, ink="chief" if chief else "box", rim="" if chief else "edge"
        )
        self._draw_stripe(figure, left, spot)
        y = spot.y + 12 + ROW - 5
        for tag, cut in self._rows(figure):
            if tag:
                more = (cut, SMALL, soft)
                self.sheet.add_text((left + _PAD, y), tag, TAG, ink=ink, bold=True, more=more)
            else:
                self.sheet.add_text((left + _PAD, y), cut, SMALL, ink=soft)
            y += ROW
        self._draw_foot(spot, left, (ink, soft, "groove" if chief else "track"))
        if self.several:
            self._draw_chip(spot, left)
        if figure.count > 1:
            self._draw_badge(spot, left)

    def _draw_stripe(self, figure: Figure, left: float, spot: _Spot) -> None:
        """Draw the colours of the machines down the left side."""
        colours = [self.colours[machine] for machine in figure.machines][:12]
        part = (spot.height - 16) / max(1, len(colours))
        for number, colour in enumerate(colours):
            at = (left + 4, spot.y + 8 + number * part)
            self.sheet.add_box(at, (4, part), colour=colour, radius=0 if len(colours) > 1 else 2)

    def _draw_foot(self, spot: _Spot, left: float, inks: tuple[str, str, str]) -> None:
        """Draw the rate of a node, how busy it is, and its machine."""
        figure, y = spot.figure, spot.bottom - 15
        ink, soft, track = inks
        rate, busy = figure.describe_rate(), name_share(figure.busy)
        taken = estimate_width(rate, TINY, bold=True) + estimate_width(busy, TINY) + 14
        room = spot.width - 2 * _PAD - taken
        at, more = (left + _PAD, y), (busy, TINY, soft)
        self.sheet.add_text(at, rate, TINY, ink=ink, bold=True, more=more)
        machine = self._name_machine(figure)
        if estimate_width(machine, TINY) <= room:
            right = (left + spot.width - _PAD, y)
            self.sheet.add_text(right, machine, TINY, ink=soft, anchor="end")
        wide = spot.width - 2 * _PAD
        at = (left + _PAD, spot.bottom - 9)
        self.sheet.add_box(at, (wide, 3), ink=track, radius=1.5)
        share = min(1.0, figure.busy) * wide
        colour = "#dc3f3f" if figure.busy > 1 else "#e89b2c" if figure.busy > 0.7 else "#2fa36b"
        if share > 0:
            self.sheet.add_box(at, (max(2.0, share), 3), colour=colour, radius=1.5)

    def _draw_chip(self, spot: _Spot, left: float) -> None:
        name = shorten(spot.figure.node.state, spot.width - 40, TINY)
        wide = estimate_width(name, TINY) + 14
        at = (left + spot.width - wide - 10, spot.y - 9)
        self.sheet.add_box(at, (wide, 18), ink="card", rim="edge", radius=9)
        middle = (at[0] + wide / 2, spot.y + 4)
        self.sheet.add_text(middle, name, TINY, ink="soft", anchor="middle")

    def _draw_badge(self, spot: _Spot, left: float) -> None:
        text = f"×{spot.figure.count}"
        wide = estimate_width(text, SMALL, bold=True) + 14
        at = (left + spot.width - wide + 14, spot.y - 17)
        self.sheet.add_box(at, (wide, 20), ink="badge", radius=10)
        middle = (at[0] + wide / 2, at[1] + 14)
        self.sheet.add_text(middle, text, SMALL, ink="count", bold=True, anchor="middle")

    def _draw_arrivals(self, spot: _Spot) -> None:
        """Draw the incoming arrows of a leaf, from below."""
        arrivals = list_arrivals(spot.figure, 3)
        room = spot.width / max(1, len(arrivals))
        for number, arrival in enumerate(arrivals):
            x = spot.x - spot.width / 2 + room * (number + 0.5)
            top, end = spot.bottom + 5, spot.bottom + ARROW
            path = f"M{x:.1f} {end:.1f}V{top + 6:.1f}"
            self._draw_arrow(path, f"M{x:.1f} {top:.1f}l-4.5 8h9z", arrival, spot.figure)
            for line, (text, soft) in enumerate(_write_arrival(arrival, room - 6)):
                at = (x, end + 14 + 14 * line)
                ink = "soft" if soft else "ink"
                self.sheet.add_text(at, text, TINY, ink=ink, anchor="middle")

    def _draw_side_arrivals(self, spot: _Spot) -> None:
        """Draw the incoming arrows of an inner node, from the right."""
        arrivals = list_arrivals(spot.figure, 2)
        left = spot.x + spot.width / 2 + 5 + (10 if spot.figure.count > 1 else 0)
        for number, arrival in enumerate(arrivals):
            y = spot.y + spot.height * (number + 0.5) / len(arrivals)
            path = f"M{left + 26:.1f} {y:.1f}H{left + 6:.1f}"
            self._draw_arrow(path, f"M{left:.1f} {y:.1f}l8 -4.5v9z", arrival, spot.figure)
            room = (self.box + GAP) / 2 - 42
            for line, (text, soft) in enumerate(_write_arrival(arrival, room)):
                at = (left + 31, y - 2 + 13 * line)
                self.sheet.add_text(at, text, TINY, ink="soft" if soft else "ink")

    def _draw_arrow(self, path: str, head: str, arrival: IncomingArrow, figure: Figure) -> None:
        colour = self.colours.get(arrival.machine, "")
        line = 1.25 + min(2.5, 0.5 * log10(1 + arrival.rate))
        far = bool(arrival.machine) and arrival.machine not in figure.machines
        dash = "3 3" if far and figure.machines else ""
        self.sheet.add_path(path, colour=colour, line=line, dash=dash)
        self.sheet.add_shape(head, colour=colour)

    def _colour(self, figure: Figure) -> str:
        return self.colours[figure.machines[0]] if figure.machines else ""

    def _draw_dot(self, x: float, y: float, colour: str) -> None:
        path = f"M{x - 4:.1f} {y:.1f}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"
        self.sheet.add_shape(path, colour=colour)

    def _lay_legend(self, top: float) -> tuple[list[tuple[float, float, str, str]], float]:
        """Return the entries of the legend, each with its position, and the bottom of the drawing."""
        entries: list[tuple[str, str]] = []
        if len(self.machines) > 1:
            shown = self.machines[: len(MACHINE_COLOURS)]
            entries += [(self.colours[name], shorten(name, 120, SMALL)) for name in shown]
            if len(self.machines) > len(shown):
                rest = len(self.machines) - len(shown)
                entries.append(("", f"+{rest} more, in the same colours again"))
        figures = [*self.root.walk()]
        if any(tag in self.markers for figure in figures for tag, _ in figure.lines()):
            entries.append(("◆", "marker"))
        if any(not sum(d.syncs for d in f.duties) for f in figures if f.children):
            entries.append(("┄", "forked once, joined at the end"))
        if any(figure.count > 1 for figure in figures):
            entries.append(("×n", "n nodes alike, joined in a tree"))
        if self._sends():
            entries.append(("⇢", "arrives over the network"))
        placed: list[tuple[float, float, str, str]] = []
        x, y = MARGIN, top
        for sign, text in entries:
            wide = 18 + estimate_width(text, SMALL) + (12 if sign in ("×n", "┄", "⇢") else 0) + 22
            if x + wide > self.width - MARGIN and x > MARGIN:
                x, y = MARGIN, y + 22
            placed.append((x, y, sign, text))
            x += wide
        return placed, (y + 26 if entries else top)

    def _sends(self) -> bool:
        return any(
            arrival.machine and figure.machines and arrival.machine not in figure.machines
            for figure in self.root.walk()
            for arrival in list_arrivals(figure, 3 if not figure.children else 2)
        )

    def _draw_legend(self, x: float, y: float, sign: str, text: str) -> None:
        shift = 18.0
        if sign.startswith("#"):
            self.sheet.add_box((x, y - 10), (12, 12), colour=sign, radius=3)
        elif sign in ("┄", "⇢"):
            shift = 30.0
            self.sheet.add_path(f"M{x:.1f} {y - 4:.1f}h22", dash="3 5" if sign == "┄" else "3 3")
            if sign == "⇢":
                self.sheet.add_shape(f"M{x + 24:.1f} {y - 4:.1f}l-7 -4v8z")
        elif sign:
            shift = 30.0 if sign == "×n" else 18.0
            self.sheet.add_text((x, y), sign, SMALL, bold=True)
        self.sheet.add_text((x + (shift if sign else 0), y), text, SMALL, ink="soft")


def _write_arrival(arrival: IncomingArrow, room: float) -> list[tuple[str, bool]]:
    """Return the lines beside an arrow, and whether each is of lesser weight."""
    rate = name_rate(arrival.rate)
    return [(shorten(arrival.name, room, TINY), False), (shorten(rate, room, TINY), True)]


def _natural(name: str) -> list[tuple[bool, int, str]]:
    """Return a sort key that puts s2 before s10."""
    pieces, digits = [""], False
    for character in name:
        if character.isdigit() != digits:
            digits = not digits
            pieces.append("")
        pieces[-1] += character
    return [(p.isdigit(), int(p) if p.isdigit() else 0, p) for p in pieces if p]
