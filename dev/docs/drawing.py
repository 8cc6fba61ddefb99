"""Boxes, arrows and words as SVG: small enough to read in a diff, and the same bytes every time.

Coordinates are pixels from the top left. Every picture has a light background, so that it is
readable on dark pages, too. Letters are in the reader's own font.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

FONT = "-apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Helvetica, Arial, sans-serif"
MONO = "ui-monospace, 'SF Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"
INK, MUTED = "#1f2933", "#5b6875"


@dataclass(frozen=True, slots=True)
class Tone:
    """The colors of one kind of thing: its outline and text, and its fill."""

    line: str
    fill: str


PLAIN = Tone("#52606d", "#ffffff")
GREY = Tone("#7b8794", "#f1f4f7")
BLUE = Tone("#1d4ed8", "#e8f0ff")
GREEN = Tone("#0b7a5f", "#e3f6ef")
AMBER = Tone("#b45309", "#fff3dc")
RED = Tone("#b91c1c", "#fdeaea")
TONES = (PLAIN, GREY, BLUE, GREEN, AMBER, RED)


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle."""

    x: float
    y: float
    width: float
    height: float

    @property
    def center(self) -> tuple[float, float]:
        """Its middle."""
        return self.x + self.width / 2, self.y + self.height / 2

    @property
    def right(self) -> float:
        """Its right edge."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """Its lower edge."""
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class Style:
    """How words look.

    Attributes:
        size: of the letters, in pixels.
        anchor: which end of the words is at the given place: start, middle or end.
        color: of the letters.
        bold: whether they are bold.
        mono: whether all letters have one width, as in code.
        halo: whether a white rim separates them from lines that they cross.
    """

    size: float = 13
    anchor: str = "middle"
    color: str = INK
    bold: bool = False
    mono: bool = False
    halo: bool = False


SMALL = Style(size=11.5, color=MUTED)
NOTE = Style(size=11.5, anchor="start", color=MUTED)
HEAD = Style(size=13, anchor="start", bold=True)


@dataclass
class Drawing:
    """A picture that is drawn piece by piece; ``svg`` is the file.

    Attributes:
        width: of the picture.
        height: of the picture.
        title: its description, for readers who cannot see it.
    """

    width: int
    height: int
    title: str
    _parts: list[str] = field(default_factory=list)

    def box(self, box: Box, tone: Tone = PLAIN, *, dashed: bool = False, radius: float = 6) -> None:
        """An outlined rectangle."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<rect x="{box.x:g}" y="{box.y:g}" width="{box.width:g}" height="{box.height:g}" '
            f'rx="{radius:g}" fill="{tone.fill}" stroke="{tone.line}" stroke-width="1.3"{dash}/>'
        )

    def words(self, x: float, y: float, text: str, style: Style = Style()) -> None:
        """A line of text; ``y`` is its baseline."""
        weight = ' font-weight="600"' if style.bold else ""
        halo = (
            ' stroke="#ffffff" stroke-width="4" stroke-linejoin="round" paint-order="stroke"'
            if style.halo
            else ""
        )
        family = f' font-family="{MONO}"' if style.mono else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{style.size:g}" text-anchor="{style.anchor}" '
            f'fill="{style.color}"{weight}{family}{halo}>{escape(text)}</text>'
        )

    def labelled(self, box: Box, lines: Sequence[str], tone: Tone = PLAIN) -> None:
        """A rectangle with a bold first line and smaller ones below it, in its middle."""
        self.box(box, tone)
        x, middle = box.center
        top = middle - (len(lines) - 1) * 8 + 4.5
        self.words(
            x, top, lines[0], Style(bold=True, color=tone.line if tone is not PLAIN else INK)
        )
        for number, line in enumerate(lines[1:], 1):
            self.words(x, top + number * 16, line, SMALL)

    def path(
        self, path: str, tone: Tone = PLAIN, *, dashed: bool = False, arrow: bool = True
    ) -> None:
        """A line in SVG's path language, with a head at its end unless ``arrow`` is false."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        head = f' marker-end="url(#head{TONES.index(tone)})"' if arrow else ""
        self._parts.append(
            f'<path d="{path}" fill="none" stroke="{tone.line}" stroke-width="1.5"{dash}{head}/>'
        )

    def svg(self) -> str:
        """The file."""
        heads = "".join(
            f'<marker id="head{number}" viewBox="0 0 10 10" refX="9" refY="5" '
            'markerWidth="7" markerHeight="7" orient="auto-start-reverse">'
            f'<path d="M0 0L10 5L0 10z" fill="{tone.line}"/></marker>'
            for number, tone in enumerate(TONES)
        )
        size = (
            f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        )
        panel = f'x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" font-family="{FONT}">',
            f"<title>{escape(self.title)}</title>",
            f"<defs>{heads}</defs>",
            f'<rect {panel} fill="#ffffff" stroke="#d5dce3"/>',
            *self._parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"
