"""The canvas of a figure: layout, panels, legends, wrapped labels and log axes."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FuncFormatter, LogFormatterMathtext, LogLocator

from kymograph._pictures.styles import FigureStyle, choose_style, current_style, drawing_in, literal, mathtext

MISSING = "#D9D9D9"


class LabFigure(Figure):
    """A matplotlib figure outside pyplot's global state, which carries the rows it was drawn from and its style."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        FigureCanvasAgg(self)
        self.style = current_style()
        self.caption = ""
        self.finished = False
        self.columns: tuple[str, ...] = ()
        self.rows: list[tuple[Any, ...]] = []

    def note(self, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
        """Adds rows of the figure's data table; every call uses the same columns."""
        if self.columns and self.columns != tuple(columns):
            raise ValueError(f"the figure's data has columns {self.columns}, not {tuple(columns)}")
        self.columns = tuple(columns)
        self.rows.extend(rows)

    def entitle(self, text: str) -> None:
        """Sets the title of the whole figure; if the style has captions, it is kept but not drawn."""
        self.caption = text
        if not self.style.captioned:
            self.suptitle(literal(text))

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Saves the figure with its style's settings; some, such as how fonts are embedded, take effect only here."""
        with matplotlib_settings(self.style):
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=100, bbox_inches=None if self.style.fixed else "tight")
        return buffer.getvalue()


def sheet(
    panel: tuple[float, float], rows: int = 1, columns: int = 1, frame: tuple[float, float] = (0.0, 0.0)
) -> LabFigure:
    """Returns an empty figure for a grid of panels of about ``panel`` inches, as wide as the current style requires.

    ``frame`` is the room needed beyond the panels, e.g. for a colour bar.
    """
    style = current_style()
    width, height = panel[0] * columns + frame[0], panel[1] * rows + frame[1]
    given = style.narrow if columns == 1 else style.wide
    if given is not None:
        scale = given / width
        each = max(panel[1] * scale, style.lowest)
        each = max(min(each, (style.tallest - frame[1] * scale) / rows), min(each, style.lowest))
        width, height = given, each * rows + frame[1] * scale
    return LabFigure(figsize=(width, height), layout="constrained")


def panel_grid(count: int, panel: tuple[float, float], most_columns: int, least: float) -> tuple[LabFigure, list[Axes]]:
    """Returns a figure and ``count`` panels of about ``panel`` inches, at most ``most_columns`` side by side.

    ``least`` is the width that a panel needs with 8 pt text, which may reduce the number of columns.
    """
    columns = current_style().columns(min(count, most_columns), least)
    rows = -(-count // columns)
    figure = sheet(panel, rows, columns)
    grid = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid[:count]


def styled(draw: Callable[..., LabFigure]) -> Callable[..., LabFigure]:
    """Lets ``draw`` take ``style`` and ``venue`` and draws in that style, by default in the current one.

    The caller's matplotlib settings neither affect the figure nor change.
    """

    @functools.wraps(draw)
    def wrapper(*args: Any, style: str | None = None, venue: str | None = None, **kwargs: Any) -> LabFigure:
        chosen = choose_style(style, venue) if style or venue else current_style()
        with drawing_in(chosen), matplotlib_settings(chosen):
            figure = draw(*args, **kwargs)
            if not figure.finished:
                letter_panels(figure)
                if chosen.fixed:
                    wrap_labels(figure, chosen.leading)
                figure.finished = True
            return figure

    return wrapper


@contextlib.contextmanager
def matplotlib_settings(style: FigureStyle) -> Iterator[None]:
    """Applies the style's matplotlib settings inside the block, independently of the caller's."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(style.rc)
        yield


def stroke(share: float = 1.0) -> float:
    """Returns a line width: ``share`` times that of a mean."""
    return share * float(matplotlib.rcParams["lines.linewidth"])


def dot() -> float:
    """Returns the size of a marker."""
    return float(matplotlib.rcParams["lines.markersize"])


def label_panel(axes: Axes, title: str, x: str, y: str) -> None:
    """Sets a panel's title and its axis labels, units included, with mathematics typeset."""
    axes.set_title(mathtext(title))
    axes.set_xlabel(mathtext(x))
    axes.set_ylabel(mathtext(y))


FEW_DECADES = 1.5
"""On axes of fewer decades, the ticks between powers of ten are labelled too."""


def set_log_y(axes: Axes) -> None:
    """Makes the vertical axis logarithmic, with few ticks."""
    axes.set_yscale("log")
    set_log_ticks(axes.yaxis)


def set_log_x(axes: Axes) -> None:
    """Makes the horizontal axis logarithmic, with few ticks."""
    axes.set_xscale("log")
    set_log_ticks(axes.xaxis)


def set_log_ticks(axis: Axis) -> None:
    """Gives a logarithmic axis minor ticks at 2 and 5 only; all eight would be slow to draw."""
    powers = LogFormatterMathtext()
    powers.set_axis(axis)
    axis.set_minor_locator(LogLocator(subs=(2.0, 5.0), numticks=12))
    axis.set_major_formatter(FuncFormatter(lambda value, tick: f"{value:g}" if _few(axis) else powers(value, tick)))
    axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if _few(axis) else ""))


def _few(axis: Axis) -> bool:
    low, high = sorted(axis.get_view_interval())
    return low > 0 and math.log10(high / low) < FEW_DECADES


_ROOM = 1.08  # a label may be this much longer than its axis
_WORD = re.compile(r"(?:\\\$|\$(?:[^$\\]|\\.)*\$|[^ ])+")  # a formula, or what a no-break space joins, is never broken
_PIECE = re.compile(r"(?<=[/_])")  # an arm's name that is too long for a line is broken here


def wrap_labels(figure: Figure, leading: float) -> None:
    """Breaks titles and axis labels that are longer than their axes into lines, ``leading`` apart."""
    for axes in figure.axes:
        for label in (axes.title, axes.xaxis.label, axes.yaxis.label):
            label.set_linespacing(leading)
    letters = panel_letters(figure)
    for _ in range(2):  # more lines leave less room for the axes, whose labels may then need more lines
        figure.draw_without_rendering()
        for axes in figure.axes:
            if axes.get_visible():
                width, height = axes.bbox.width, axes.bbox.height
                wrap_label(axes.title, width / _ROOM if axes in letters else width)  # a letter stands left of the title
                wrap_label(axes.xaxis.label, width)
                wrap_label(axes.yaxis.label, height)
        title = getattr(figure, "_suptitle", None)
        if title is not None:
            wrap_label(title, figure.bbox.width / _ROOM)


def wrap_label(label: Text, room: float) -> None:
    """Breaks one label so that no line is longer than ``room`` pixels, if possible."""
    text = label.get_text()
    if text:
        width_of = _ruler(label)
        label.set_text("\n".join(wrapped(line, width_of, room * _ROOM) for line in text.split("\n")))


def wrapped(line: str, width_of: Callable[[str], float], room: float) -> str:
    """Returns ``line`` broken into as few lines as fit into ``room`` by ``width_of``, of about equal length."""
    if width_of(line) <= room:
        return line
    pieces: list[str] = []
    for word in _WORD.findall(line):
        parts = [word] if width_of(word) <= room or "$" in word else _PIECE.split(word)
        pieces += [f" {parts[0]}", *parts[1:]]
    fewest = len(_break(pieces, width_of, room))
    shares = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    return "\n".join(next(lines for share in shares if len(lines := _break(pieces, width_of, share * room)) <= fewest))


def _break(pieces: Sequence[str], width_of: Callable[[str], float], room: float) -> list[str]:
    """Returns lines with as many ``pieces`` each as fit; a piece that begins a word starts with a space."""
    lines: list[str] = []
    for piece in pieces:
        longer = (lines[-1] if lines else "") + piece
        if lines and width_of(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(piece.lstrip())
    return lines


def _ruler(label: Text) -> Callable[[str], float]:
    """Returns a function that measures a line of text in pixels, in the label's font."""
    figure = label.get_figure(root=True)
    assert figure is not None
    probe = Text(0, 0, "", fontproperties=label.get_fontproperties(), figure=figure)

    @functools.cache
    def width(text: str) -> float:
        probe.set_text(text)
        return probe.get_window_extent().width

    return width


def legends(figure: Figure, panels: Iterable[Axes]) -> None:
    """Draws one legend for all panels below the figure; an entry that differs between panels says where, by letter."""
    letters = panel_letters(figure)
    entries: dict[str, tuple[Any, dict[str, list[str]]]] = {}
    for axes in (axes for axes in panels if axes.get_visible()):
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            noted = letters and label.endswith(")")  # a single panel has no letter to refer to
            name, _, note = label[:-1].rpartition(" (") if noted else (label, "", "")
            _, where = entries.setdefault(name, (handle, {}))
            where.setdefault(note, []).append(letters.get(axes, ""))
    labels = []
    for name, (_, where) in entries.items():
        notes = [f"{', '.join(at)}: {note}" if len(where) > 1 else note for note, at in where.items() if note]
        labels.append(f"{name} ({'; '.join(notes)})" if notes else name)
    if entries:
        legend_below(figure, [handle for handle, _ in entries.values()], labels)


def panel_letters(figure: Figure) -> dict[Axes, str]:
    """Returns the letter of every panel, in reading order; empty if there is only one panel."""
    panels = [axes for axes in figure.axes if axes.get_visible() and axes.get_subplotspec() and axes.axison]
    panels = [axes for axes in panels if axes.get_label() != "<colorbar>"]
    letters = [
        chr(ord("a") + index) if index < 26 else f"a{chr(ord('a') + index - 26)}" for index in range(len(panels))
    ]
    return dict(zip(panels, letters, strict=True)) if len(panels) > 1 else {}


def letter_panels(figure: Figure) -> None:
    """Letters the panels of a figure with several a, b, c, ..., so that text can refer to them."""
    for axes, letter in panel_letters(figure).items():
        axes.annotate(letter, (0, 1), (-5, 4), "axes fraction", "offset points", ha="right", va="bottom",
                      fontweight="bold", fontsize="medium")  # fmt: skip


def legend_below(figure: Figure, handles: list[Any], names: list[str]) -> None:
    """Draws one legend below the figure, in as many columns as fit; the figure grows as far as its style allows."""
    room = 0.98 * figure.bbox.width
    for columns in range(len(names), 0, -1):
        legend = figure.legend(handles, names, loc="outside lower center", ncols=columns)
        spare = room - legend.get_window_extent().width
        if spare >= 0:
            break
        legend.remove()
    else:  # a name is too long for a line
        texts = legend.get_texts()
        width = max(text.get_window_extent().width for text in texts) + spare
        names = [wrapped(name, _ruler(text), width) for name, text in zip(names, texts, strict=True)]
        legend = figure.legend(handles, names, loc="outside lower center")
    height, style = figure.get_figheight(), getattr(figure, "style", None)
    taller = height + legend.get_window_extent().height / figure.dpi
    figure.set_figheight(min(taller, max(height, style.tallest)) if style is not None and style.fixed else taller)
