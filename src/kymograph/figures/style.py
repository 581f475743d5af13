"""One look for every figure: colour-blind-safe colours, fixed fonts, and figures that show themselves in notebooks."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

# Okabe and Ito (2008): distinguishable with every common colour vision deficiency; yellow, too pale, is left out.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MAP = "viridis"
MISSING = "#D9D9D9"

_STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,  # fonts embedded as fonts, so that a journal can edit them
    "svg.hashsalt": "kymograph",
    "path.simplify": True,
}

P = ParamSpec("P")


class LabFigure(Figure):
    """A matplotlib figure outside pyplot's global state, which carries the rows it was drawn from."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        FigureCanvasAgg(self)
        self.columns: tuple[str, ...] = ()
        self.rows: list[tuple] = []

    def note(self, columns: Sequence[str], rows: Sequence[tuple]) -> None:
        """Adds rows of the figure's data table; every call uses the same columns."""
        if self.columns and self.columns != tuple(columns):
            raise ValueError(f"the figure's data has columns {self.columns}, not {tuple(columns)}")
        self.columns = tuple(columns)
        self.rows.extend(rows)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100, bbox_inches="tight")
        return buffer.getvalue()


def styled(draw: Callable[P, LabFigure]) -> Callable[P, LabFigure]:
    """Draws under this project's style, leaving the caller's matplotlib settings as they were."""

    @functools.wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> LabFigure:
        with matplotlib.rc_context(_STYLE):
            return draw(*args, **kwargs)

    return wrapper


def colour(names: Sequence[str], name: str) -> str:
    """Returns the colour of ``name`` among ``names``: by place, so that an arm keeps its colour in every panel."""
    return COLOURS[list(names).index(name) % len(COLOURS)]


def label_panel(axes: Axes, title: str, x: str, y: str) -> None:
    """Sets a panel's title and its axis labels, units included."""
    axes.set_title(title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
