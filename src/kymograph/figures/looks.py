"""The looks of figures by purpose: a notebook, a paper (optionally at a venue's width) or slides."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from kymograph.errors import KymographError, did_you_mean


@dataclass(frozen=True)
class Look:
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
    "svg.fonttype": "path",  # an SVG holds no fonts: outlines look the same wherever it is opened
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
NOTEBOOK = Look(
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
PAPER = Look(
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
SLIDES = Look(
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
LOOKS = {look.name: look for look in (NOTEBOOK, PAPER, SLIDES)}

_current: ContextVar[Look] = ContextVar("look", default=NOTEBOOK)


def current_look() -> Look:
    """Returns the look in which figures are currently drawn."""
    return _current.get()


@contextlib.contextmanager
def drawing_in(look: Look) -> Iterator[None]:
    """Draws every figure inside the block in ``look``."""
    token = _current.set(look)
    try:
        yield
    finally:
        _current.reset(token)


def choose_look(style: str | None = None, venue: str | None = None) -> Look:
    """Returns the look called ``style``, at ``venue``'s width and font sizes if one is given.

    Without a style it is ``paper`` if there is a venue and ``notebook`` otherwise.
    """
    name = style or ("paper" if venue else "notebook")
    if name not in LOOKS:
        raise KymographError(f"there is no style {name!r}{did_you_mean(name, LOOKS)}")
    if venue is None:
        return LOOKS[name]
    if name != "paper":
        raise KymographError(f"a venue is for papers; drop the venue or the style {name!r}")
    return _at_venue(venue)


def _at_venue(venue: str) -> Look:
    """Returns the paper look with a venue's widths and font sizes, from tueplots."""
    try:
        from tueplots import figsizes, fontsizes
    except ImportError:
        raise KymographError(
            "venue widths come from tueplots; install it with `pip install 'kymograph[paper]'`"
        ) from None
    venues = {name.removesuffix("_half").removesuffix("_full") for name in vars(figsizes) if not name.startswith("_")}
    known = venues & set(vars(fontsizes))
    if venue not in known:
        raise KymographError(f"there is no venue {venue!r}{did_you_mean(venue, known)}")

    def width(kind: str) -> float:
        size = getattr(figsizes, f"{venue}_{kind}", None) or getattr(figsizes, venue)
        return float(size()["figure.figsize"][0])

    sizes = getattr(fontsizes, venue)()
    return dataclasses.replace(PAPER, name=venue, rc={**PAPER.rc, **sizes}, narrow=width("half"), wide=width("full"))
