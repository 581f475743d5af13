"""The styles of figures and of arms, and mathematics in labels."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from kymograph._errors import KymographError, did_you_mean
from kymograph._runs.declaration import COLOURS as COLOUR_NAMES
from kymograph._runs.declaration import DASHES as DASH_NAMES
from kymograph._runs.declaration import Arm, Declaration

_NORM = re.compile(r"(‖[^‖]*‖²?)")
_SUBSCRIPT = re.compile(r"(?<![A-Za-z0-9_])(∂?[A-Za-z])_([A-Za-zℓ]|[0-9]+)(?![A-Za-z0-9_])")
_LONGEST = 1000  # characters: longer formulas take seconds to set
_COMMANDS = {"‖": r"\|", "∂": r"\partial ", "Δ": r"\Delta ", "ℓ": r"\ell ", "²": "^2"}


def mathtext(label: str) -> str:
    r"""Returns a label for matplotlib, with norms and subscripts as formulas, unless it has formulas of its own.

    >>> print(mathtext("norm ‖h_L‖ of h_2"))
    norm $\|h_{L}\|$ of $h_{2}$
    """
    if "$" in label:
        return literal(label)
    parts = _NORM.split(label)  # alternately text and norms
    return "".join(
        f"${_formula(part)}$" if index % 2 else _SUBSCRIPT.sub(lambda match: f"${_formula(match[0])}$", part)
        for index, part in enumerate(parts)
    )


def literal(name: str) -> str:
    r"""Returns a name for matplotlib as it is: dollar signs stay unless they enclose formulas that can be typeset.

    >>> print(literal("cost in $"), literal(r"$\frac{$"), literal(r"$\alpha$ = 1"))
    cost in \$ \$\frac{\$ $\alpha$ = 1
    """
    if "$" not in name:
        return name
    return "\n".join(line if _can_be_set(line) else line.replace("$", r"\$") for line in name.split("\n"))


def _can_be_set(line: str) -> bool:
    from matplotlib.cbook import is_math_text  # pages have mathematics too, and do not need matplotlib
    from matplotlib.mathtext import MathTextParser

    if len(line) > _LONGEST or not is_math_text(line):
        return False
    try:
        MathTextParser("path").parse(line)
    except (ValueError, RecursionError):
        return False
    return True


def _formula(text: str) -> str:
    braced = _SUBSCRIPT.sub(r"\1_{\2}", text)
    return "".join(_COMMANDS.get(letter, letter) for letter in braced)


def html_mathematics(label: str) -> Markup:
    """Returns a label with HTML subscripts; everything else is escaped.

    >>> html_mathematics("‖h_L‖ < 1")
    Markup('‖<i>h</i><sub>L</sub>‖ &lt; 1')
    """
    return Markup(_SUBSCRIPT.sub(r"<i>\1</i><sub>\2</sub>", str(escape(label))))


def svg_mathematics(label: str) -> Markup:
    """Returns a label with SVG subscripts; everything else is escaped."""
    lowered = r'\1<tspan class="sub" dy="3">\2</tspan><tspan dy="-3">&#8203;</tspan>'
    return Markup(_SUBSCRIPT.sub(lowered, str(escape(label))))


@dataclass(frozen=True)
class FigureStyle:
    """Fonts, lines and sizes of a figure; lengths are in inches."""

    name: str
    rc: Mapping[Any, Any]
    """Matplotlib settings on top of its defaults."""
    dpi: int
    """Pixels per inch of PNG, and of the rasterised parts of PDF and SVG."""
    narrow: float | None = None
    """Width of a figure with one column of panels; None: given by its panels."""
    wide: float | None = None
    """Width of any other figure."""
    tallest: float = 9.0
    """Maximum height; panels are made lower until the figure fits, but not below ``lowest``."""
    lowest: float = 1.5
    """Minimum legible height of a panel with its labels."""
    leading: float = 1.2
    """Line spacing of labels, as a multiple of the font size."""
    captioned: bool = False
    """Whether the figure gets a caption below it, so that it needs no title."""
    landscape: bool = False
    """Whether the page is wider than tall."""

    @property
    def fixed(self) -> bool:
        """Whether the figure's width is given, so that nothing may be trimmed or extend beyond it."""
        return self.wide is not None

    def columns(self, wanted: int, least: float) -> int:
        """Returns how many of ``wanted`` columns fit; ``least`` is a panel's minimum width with 8 pt text."""
        return wanted if self.wide is None else max(1, min(wanted, int(self.wide / (least * self.rc["font.size"] / 8))))


# Settings that take effect when a figure is written.
FILES: dict[Any, Any] = {
    "pdf.fonttype": 42,  # fonts embedded as fonts, so that text can be searched and a journal can edit it
    "svg.fonttype": "path",  # an SVG holds no fonts: outlines are the same wherever it is opened
    "svg.hashsalt": "kymograph",  # without it, ids inside an SVG are random
}
# Fonts that ship with matplotlib, so that a figure has the same bytes on every machine. STIX resembles Times, which
# most venues use for text.
_SHARED: dict[Any, Any] = {
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "path.simplify": True,
    **FILES,
}
NOTEBOOK = FigureStyle(
    "notebook",
    _SHARED
    | {
        "font.size": 9,
        "axes.titlesize": 10,
        "legend.fontsize": 8,
        "lines.linewidth": 1.6,
        "lines.markersize": 3,
    },
    dpi=160,
)
PAPER = FigureStyle(
    "paper",
    _SHARED
    | {
        "font.family": "STIXGeneral",
        "mathtext.fontset": "stix",
        "font.size": 8,
        "axes.titlesize": 8,
        "axes.labelsize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "legend.fontsize": 7,
        "legend.handlelength": 1.5,
        "legend.columnspacing": 1.2,
        "lines.linewidth": 1.1,
        "lines.markersize": 2,
        "axes.linewidth": 0.6,
        "grid.linewidth": 0.5,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.minor.width": 0.4,
        "ytick.minor.width": 0.4,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "xtick.minor.size": 1.5,
        "ytick.minor.size": 1.5,
        "figure.constrained_layout.wspace": 0.04,  # keeps labels clear of the next panel
    },
    dpi=300,
    narrow=3.3,
    wide=6.8,
    leading=1.0,
    captioned=True,
)
SLIDES = FigureStyle(
    "slides",
    _SHARED
    | {
        "font.size": 14,
        "axes.titlesize": 15,
        "legend.fontsize": 11.5,
        "legend.handlelength": 1.2,
        "legend.handletextpad": 0.5,
        "legend.borderaxespad": 0.2,
        "xtick.labelsize": 12,
        "ytick.labelsize": 12,
        "lines.linewidth": 2.6,
        "lines.markersize": 5,
        "axes.linewidth": 1.2,
        "figure.constrained_layout.wspace": 0.04,
    },
    dpi=160,
    narrow=10.0,
    wide=12.5,  # a slide is 13.33 by 7.5
    tallest=6.4,
    lowest=2.0,
    landscape=True,
)
STYLES = {style.name: style for style in (NOTEBOOK, PAPER, SLIDES)}

_current: ContextVar[FigureStyle] = ContextVar("style", default=NOTEBOOK)


def current_style() -> FigureStyle:
    """Returns the style in which figures are currently drawn."""
    return _current.get()


@contextlib.contextmanager
def drawing_in(style: FigureStyle) -> Iterator[None]:
    """Draws every figure inside the block in ``style``."""
    token = _current.set(style)
    try:
        yield
    finally:
        _current.reset(token)


def choose_style(style: str | None = None, venue: str | None = None) -> FigureStyle:
    """Returns the style called ``style``, at ``venue``'s width and font sizes if one is given.

    Without a style it is ``paper`` if there is a venue and ``notebook`` otherwise.
    """
    name = style or ("paper" if venue else "notebook")
    if name not in STYLES:
        raise KymographError(f"there is no style {name!r}{did_you_mean(name, STYLES)}")
    if venue is None:
        return STYLES[name]
    if name != "paper":
        raise KymographError(f"a venue is for papers; drop the venue or the style {name!r}")
    return _at_venue(venue)


def _at_venue(venue: str) -> FigureStyle:
    """Returns the paper style with a venue's widths and font sizes, from tueplots."""
    try:
        from tueplots import figsizes, fontsizes
    except ImportError:
        raise KymographError(
            "venue widths come from tueplots; install it with `pip install 'kymograph[paper]'`"
        ) from None
    venues = {name.removesuffix("_half").removesuffix("_full") for name in vars(figsizes) if not name.startswith("_")}
    venues &= set(vars(fontsizes))
    if venue not in venues:
        raise KymographError(f"there is no venue {venue!r}{did_you_mean(venue, venues)}")

    def width(kind: str) -> float:
        size = getattr(figsizes, f"{venue}_{kind}", None) or getattr(figsizes, venue)
        return float(size()["figure.figsize"][0])

    sizes = getattr(fontsizes, venue)()
    return dataclasses.replace(PAPER, name=venue, rc={**PAPER.rc, **sizes}, narrow=width("half"), wide=width("full"))


# Okabe and Ito (2008): distinguishable with every common colour vision deficiency; yellow, too pale, is left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# Lengths on and off, in line widths.
DASHES: tuple[tuple[float, ...], ...] = ((), (7, 3), (2, 2.5), (10, 3, 2, 3), (4, 2), (14, 3))
_USUAL = (0, 0, 1, 2, 3, 4, 0)
"""The dash of the first arm in each colour; the three solid colours differ in lightness."""


@dataclass(frozen=True)
class ArmStyle:
    """An arm's label, and its colour and dash as indices into `COLOURS` and `DASHES`."""

    label: str
    colour: int
    dash: int

    @property
    def hex(self) -> str:
        """The colour, in matplotlib's notation."""
        return COLOURS[self.colour]

    @property
    def dashes(self) -> tuple[float, ...]:
        """The lengths on and off; empty for a solid line."""
        return DASHES[self.dash]


def arm_styles(declaration: Declaration, arms: Iterable[str] = ()) -> dict[str, ArmStyle]:
    """Returns the style of every declared arm, and of further ``arms``, in that order.

    A style depends on the declaration alone, not on which arms were run, so that an arm is drawn the same everywhere.
    Declared colours and dashes are assigned first; the other arms take what is free.

    >>> styles = arm_styles(Declaration("s", arms=(Arm("a"), Arm("b", colour="blue"), Arm("c"))))
    >>> [(style.colour, style.dash) for style in styles.values()]
    [(1, 0), (0, 0), (2, 1)]
    """
    declared = {arm.name: arm for arm in declaration.arms}
    for name in arms:
        declared.setdefault(name, Arm(name))
    taken: dict[str, tuple[int, int]] = {}
    for arm in (arm for arm in declared.values() if arm.colour):
        colour = COLOUR_NAMES.index(arm.colour)
        used = {dash for other, dash in taken.values() if other == colour}
        free = [DASH_NAMES.index(arm.dash)] if arm.dash else [n for n in range(len(DASHES)) if n not in used]
        if free:
            taken[arm.name] = colour, free[0]
    used_pairs = set(taken.values())
    rest = (pair for pair in _pairs() if pair not in used_pairs)
    for name in declared:
        if name not in taken:
            taken[name] = next(rest, (len(taken) % len(COLOURS), 0))
    return {name: ArmStyle(arm.label or name, *taken[name]) for name, arm in declared.items()}


def _pairs() -> Iterator[tuple[int, int]]:
    """Yields every pair of colour and dash, colours first, so that successive arms differ as much as possible."""
    for turn in range(len(DASHES)):
        for colour, first in enumerate(_USUAL):
            yield colour, (first + turn) % len(DASHES)
