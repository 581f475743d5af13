"""One look for every figure: colour-blind-safe colours, fixed fonts, and figures that display in notebooks."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from kymograph.figures.layout import letter_panels, wrap_labels
from kymograph.figures.looks import Look, choose_look, current_look, drawing_in
from kymograph.figures.mathematics import literal, mathtext

MAP = "viridis"
SIGNED_MAP = "PuOr_r"
"""For values on both sides of 0: diverging, and safe for colour-blind readers."""
MISSING = "#D9D9D9"


class LabFigure(Figure):
    """A matplotlib figure outside pyplot's global state, which carries the rows it was drawn from and its look."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        FigureCanvasAgg(self)
        self.look = current_look()
        self.caption = ""
        self.finished = False
        self.columns: tuple[str, ...] = ()
        self.rows: list[tuple] = []

    def note(self, columns: Sequence[str], rows: Sequence[tuple]) -> None:
        """Adds rows of the figure's data table; every call uses the same columns."""
        if self.columns and self.columns != tuple(columns):
            raise ValueError(f"the figure's data has columns {self.columns}, not {tuple(columns)}")
        self.columns = tuple(columns)
        self.rows.extend(rows)

    def entitle(self, text: str) -> None:
        """Sets the title of the whole figure; if the look has captions, it is kept but not drawn."""
        self.caption = text
        if not self.look.captioned:
            self.suptitle(literal(text))

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Saves the figure with its look's settings; some, such as how fonts are embedded, take effect only here."""
        with settings(self.look):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100, bbox_inches=None if self.look.fixed else "tight")
        return buffer.getvalue()


def sheet(
    panel: tuple[float, float], rows: int = 1, columns: int = 1, frame: tuple[float, float] = (0.0, 0.0)
) -> LabFigure:
    """Returns an empty figure for a grid of panels of about ``panel`` inches, as wide as the current look requires.

    ``frame`` is the room needed beyond the panels, e.g. for a colour bar.
    """
    look = current_look()
    width, height = panel[0] * columns + frame[0], panel[1] * rows + frame[1]
    given = look.narrow if columns == 1 else look.wide
    if given is not None:
        scale = given / width
        each = max(panel[1] * scale, look.lowest)
        each = max(min(each, (look.tallest - frame[1] * scale) / rows), min(each, look.lowest))
        width, height = given, each * rows + frame[1] * scale
    return LabFigure(figsize=(width, height), layout="constrained")


def panel_grid(count: int, panel: tuple[float, float], most_columns: int, least: float) -> tuple[LabFigure, list[Axes]]:
    """Returns a figure and ``count`` panels of about ``panel`` inches, at most ``most_columns`` side by side.

    ``least`` is the width that a panel needs with 8 pt text, which may reduce the number of columns.
    """
    columns = current_look().columns(min(count, most_columns), least)
    rows = -(-count // columns)
    figure = sheet(panel, rows, columns)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid[:count]


def styled(draw: Callable[..., LabFigure]) -> Callable[..., LabFigure]:
    """Lets ``draw`` take ``style`` and ``venue`` and draws in that look, by default in the current one.

    The caller's matplotlib settings neither affect the figure nor change.
    """

    @functools.wraps(draw)
    def wrapper(*args: Any, style: str | None = None, venue: str | None = None, **kwargs: Any) -> LabFigure:
        look = choose_look(style, venue) if style or venue else current_look()
        with drawing_in(look), settings(look):
            figure = draw(*args, **kwargs)
            if not figure.finished:
                letter_panels(figure)
                if look.fixed:
                    wrap_labels(figure, look.leading)
                figure.finished = True
            return figure

    return wrapper


@contextlib.contextmanager
def settings(look: Look) -> Iterator[None]:
    """Applies the look's matplotlib settings inside the block, independently of the caller's."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(look.rc)
        yield


def stroke(share: float = 1.0) -> float:
    """Returns a line width: ``share`` times that of a mean."""
    return share * matplotlib.rcParams["lines.linewidth"]


def dot() -> float:
    """Returns the size of a marker."""
    return matplotlib.rcParams["lines.markersize"]


def label_panel(axes: Axes, title: str, x: str, y: str) -> None:
    """Sets a panel's title and its axis labels, units included, with mathematics typeset."""
    axes.set_title(mathtext(title))
    axes.set_xlabel(mathtext(x))
    axes.set_ylabel(mathtext(y))
