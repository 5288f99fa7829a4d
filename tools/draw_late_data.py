"""Draw docs/images/late-data.svg from the run that docs/late-data.md shows.

Run it as `python tools/draw_late_data.py` after a change of that page. The page's own code is run, so
that the picture can't tell another story.
"""

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "late-data.md"
PICTURE = DOCS / "images" / "late-data.svg"

LEFT, TOP, UNIT, WIDE, HIGH, DELAY = 60, 30, 16, 30, 34, 4
HALO = 'stroke="#fff" stroke-width="3" paint-order="stroke"'
COLOURS = {"early": "#e08a1e", "on_time": "#2a7de1", "late": "#8e44ad"}


def run_page(text: str) -> dict[str, Any]:
    """Run the page's code up to the picture, and return what it leaves."""
    names: dict[str, Any] = {}
    before = text.partition("late-data.svg")[0]
    with contextlib.redirect_stdout(io.StringIO()):
        for block in re.findall(r"```python\n(.*?)```", before, flags=re.DOTALL):
            exec(block, names)  # noqa: S102 - our own page
    return names


def across(place: float) -> float:
    """Return where an event time lies."""
    return LEFT + place * UNIT


def up(clock: float) -> float:
    """Return where a reading of the clock lies."""
    return TOP + (HIGH - clock) * UNIT


def draw_line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    """Return a line from one pair of times to another."""
    ends = f'x1="{across(x1):g}" y1="{up(y1):g}" x2="{across(x2):g}" y2="{up(y2):g}"'
    return f"<line {ends} {style}/>"


def draw_text(x: float, y: float, text: str, style: str = "") -> str:
    """Return a text at a pair of times."""
    return f'<text x="{across(x):g}" y="{up(y):g}" {style}>{text}</text>'


def draw_ground() -> list[str]:
    """Return the windows, the axes, the clock and the watermark."""
    bands = [
        f'<rect x="{across(start):g}" y="{up(HIGH):g}" width="{10 * UNIT}" height="{HIGH * UNIT}" '
        f'fill="{"#f2f5f9" if start % 20 == 0 else "#e6ebf2"}"/>'
        for start in range(0, WIDE, 10)
    ]
    ticks = [draw_text(n, -1.1, str(n), 'text-anchor="middle"') for n in range(0, WIDE + 1, 10)]
    ticks += [draw_text(-0.5, n - 0.3, str(n), 'text-anchor="end"') for n in range(0, HIGH, 10)]
    return [
        *bands,
        *ticks,
        draw_text(WIDE / 2, -2.4, "when it was measured", 'text-anchor="middle"'),
        draw_text(-3, HIGH + 0.6, "when it arrived"),
        draw_line(0, 0, WIDE, WIDE, 'stroke="#999" stroke-dasharray="4 4"'),
        draw_text(WIDE - 0.3, WIDE - 1.5, "the clock", 'text-anchor="end" fill="#777"'),
        draw_line(0, DELAY, WIDE, WIDE + DELAY, 'stroke="#c0392b" stroke-width="2"'),
        draw_text(25.6, 30.4, "the watermark", 'text-anchor="end" fill="#c0392b"'),
    ]


def draw_pane(output: Any) -> list[str]:
    """Return what a window said, as a bar across it; a missed event is a cross."""
    clock, emitted = output.event.time, output.value
    if not hasattr(emitted, "timing"):
        style = 'text-anchor="middle" font-size="20" fill="#c0392b" font-weight="bold"'
        return [
            draw_text(emitted.time, clock - 0.5, "×", style),
            draw_text(emitted.time + 0.7, clock - 0.3, "missed", 'fill="#c0392b"'),
        ]
    colour = COLOURS[emitted.timing]
    bar = f'stroke="{colour}" stroke-width="5" stroke-linecap="round" opacity="0.85"'
    label = f"{emitted.value} mm, {emitted.timing.replace('_', ' ')}"
    return [
        draw_line(emitted.start + 0.3, clock, emitted.end - 0.3, clock, bar),
        draw_text(emitted.start + 0.4, clock + 0.5, label, f'fill="{colour}" {HALO}'),
    ]


def draw_event(event: Any) -> str:
    """Return an event as a dot."""
    return f'<circle cx="{across(event.measured):g}" cy="{up(event.time):g}" r="4.5" fill="#222"/>'


def draw(names: dict[str, Any]) -> str:
    """Return the picture of a run."""
    outputs = names["answer"].outputs
    missed = [output.value.value for output in outputs if not hasattr(output.value, "timing")]
    parts = [
        *draw_ground(),
        *(shape for output in outputs for shape in draw_pane(output)),
        *(draw_event(event) for event in names["readings"] if event not in missed),
    ]
    width, height = LEFT + WIDE * UNIT + 30, TOP + HIGH * UNIT + 55
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}"'
    body = "\n".join(parts)
    return f'{head} font-family="sans-serif" font-size="12" fill="#333">\n{body}\n</svg>\n'


def main() -> int:
    """Write the picture."""
    PICTURE.write_text(draw(run_page(PAGE.read_text(encoding="utf-8"))), encoding="utf-8")
    print("docs/images/late-data.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
