"""Sheets: SVG documents written line by line, in two palettes, for a light and for a dark page.

Colours are attributes, for programs without support for style sheets, and again in a style sheet for
readers that prefer dark pages. There are no ids, so that many drawings can share one page.
"""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"

MACHINE_COLOURS = (
    "#3b82f6", "#ef8a2b", "#2fa36b", "#9461e0", "#e0567a", "#17a2b8",
    "#a08a1f", "#7a869a", "#c2410c", "#4f46e5", "#65a30d", "#b0468f",
)  # fmt: skip
"""Colours that are readable on white and on black; with more machines than colours, they repeat."""

_INKS = {
    "card": ("fill", "#ffffff", "#171b24"),
    "rim": ("stroke", "#dfe3ea", "#2e3544"),
    "box": ("fill", "#f5f7fa", "#222936"),
    "edge": ("stroke", "#c3cad6", "#414b5e"),
    "chief": ("fill", "#26365f", "#34497f"),
    "ink": ("fill", "#1b2333", "#eef1f7"),
    "soft": ("fill", "#5d6880", "#a4afc4"),
    "pale": ("fill", "#ffffff", "#ffffff"),
    "haze": ("fill", "#c9d3ec", "#cdd7f0"),
    "label": ("fill", "#e8ecf3", "#2d3546"),
    "track": ("fill", "#dde3ec", "#39435a"),
    "groove": ("fill", "#465785", "#5267a3"),
    "wire": ("stroke", "#8b96ab", "#76829b"),
    "badge": ("fill", "#1b2333", "#eef1f7"),
    "count": ("fill", "#ffffff", "#171b24"),
}


class Sheet:
    """An SVG document in progress. Every call adds one element."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._inks: dict[str, None] = {}

    def open(self, title: str, **data: str) -> None:
        """Begin a group with a title, which viewers show as a tooltip."""
        marks = "".join(f" data-{name}={quoteattr(value)}" for name, value in data.items())
        self._lines.append(f"<g{marks}><title>{escape(title)}</title>")

    def close(self) -> None:
        """End a group."""
        self._lines.append("</g>")

    def add_box(
        self,
        at: tuple[float, float],
        size: tuple[float, float],
        *,
        ink: str = "",
        rim: str = "",
        radius: float = 8,
        colour: str = "",
        line: float = 1,
    ) -> None:
        """Add a rectangle; `ink` and `rim` are names of the palette, `colour` is an SVG colour."""
        paint = f' fill="{colour}"' if colour and not ink else self._paint(ink, rim)
        if colour and ink:
            paint += f' stroke="{colour}"'
        width = f' stroke-width="{line:g}"' if line != 1 else ""
        (x, y), (w, h) = at, size
        self._lines.append(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(w)}" height="{_n(h)}" '
            f'rx="{_n(radius)}"{paint}{width}/>'
        )

    def add_text(
        self,
        at: tuple[float, float],
        text: str,
        size: float,
        *,
        ink: str = "ink",
        bold: bool = False,
        anchor: str = "start",
        more: tuple[str, float, str] | None = None,
    ) -> None:
        """Add a line of text; `more` is appended to it: a text, its size and its ink."""
        if not text:
            return
        weight = ' font-weight="600"' if bold else ""
        align = f' text-anchor="{anchor}"' if anchor != "start" else ""
        after = ""
        if more is not None and more[0]:
            paint = self._paint(more[2], "")
            after = f'<tspan dx="6" font-size="{more[1]:g}" font-weight="400"{paint}>'
            after += f"{escape(more[0])}</tspan>"
        self._lines.append(
            f'<text x="{_n(at[0])}" y="{_n(at[1])}" font-size="{size:g}"{weight}{align}'
            f"{self._paint(ink, '')}>{escape(text)}{after}</text>"
        )

    def add_path(
        self, path: str, *, ink: str = "wire", colour: str = "", line: float = 1.5, dash: str = ""
    ) -> None:
        """Add a line."""
        paint = f' stroke="{colour}"' if colour else self._paint("", ink)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self._lines.append(
            f'<path d="{path}" fill="none" stroke-width="{line:.2f}"{paint}{dashed}/>'
        )

    def add_shape(self, path: str, *, colour: str = "", ink: str = "soft") -> None:
        """Add a filled shape."""
        paint = f' fill="{colour}"' if colour else self._paint(ink, "")
        self._lines.append(f'<path d="{path}"{paint}/>')

    def write(self, width: float, height: float, title: str, summary: str) -> str:
        """Return the finished document."""
        dark = "".join(f".ab-{i}{{{_INKS[i][0]}:{_INKS[i][2]}}}" for i in sorted(self._inks))
        size = f"{_n(width)} {_n(height)}"
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
            f'width="{_n(width)}" height="{_n(height)}" role="img" font-family="{FONT}">'
        )
        words = f"<title>{escape(title)}</title>\n<desc>{escape(summary)}</desc>"
        style = f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>"
        return "\n".join([head, words, style, *self._lines, "</svg>\n"])

    def _paint(self, fill: str, stroke: str) -> str:
        names = [name for name in (fill, stroke) if name]
        self._inks.update(dict.fromkeys(names))
        marks = f' class="{" ".join(f"ab-{name}" for name in names)}"' if names else ""
        return marks + "".join(f' {_INKS[name][0]}="{_INKS[name][1]}"' for name in names)


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
