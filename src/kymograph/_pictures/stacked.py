"""Panels in rows below each other, each row with its name at the left and a height in inches, and text below them all.

Constrained layout shares the height of a figure among its panels; here the heights are given, labels are measured
before anything is drawn, and the figure becomes as high as its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.text import Text

from kymograph._pictures.arrangement import Arrangement, DepthMap
from kymograph._pictures.canvas import LabFigure, wrapped
from kymograph._pictures.styles import current_style, literal, mathtext

_WIDTHS = {1: 4.6, 2: 3.0, 3: 2.4, 4: 2.0}
"""Inches of a panel, by the number of columns, in styles that do not give the figure's width."""
_LEAST = 1.9  # inches of a panel with its share of the labels, with 8 pt text
_MOST_COLUMNS = 4
_TALLEST = 14.0  # inches of rows, in styles that do not give the size of the page
_LONGEST_TITLE = 1.9  # inches; a longer name is broken at its dots
NAME = 0.15
"""Inches from one named row to the next."""
_LINE, _HEADING, _TICKS, _AXIS, _MARGIN = 0.165, 0.2, 0.195, 0.4, 0.06  # inches with 9 pt text, as all lengths below

Box = tuple[float, float, float, float]
"""Left, bottom, width and height, as fractions of the figure."""


@dataclass(frozen=True)
class StackRow:
    """One row of panels."""

    title: str
    """What stands at the left of the row; empty if the labels need the room."""
    height: float
    labels: tuple[str, ...]
    """What its vertical axis is labelled with."""
    heading: str = ""
    """What stands above the row."""


@dataclass(frozen=True)
class StackBlock:
    """Rows that share their columns, and the titles of the columns."""

    columns: tuple[str, ...]
    rows: tuple[StackRow, ...]


@dataclass(frozen=True)
class PanelStack:
    """A figure of rows of panels."""

    figure: LabFigure
    panels: tuple[tuple[tuple[Axes, ...], ...], ...]
    """By block, row and column."""
    beside: tuple[tuple[Box, ...], ...]
    """The free box to the right of every row, by block and row."""


def scaled(inches: float) -> float:
    """Returns a length that suits 9 pt text, for the text of the current style."""
    return inches * float(matplotlib.rcParams["font.size"]) / 9


def small() -> float:
    """Returns the size of small text in points, which can still be read in print."""
    return max(6.0, 0.83 * float(matplotlib.rcParams["font.size"]))


def most_columns(wanted: int) -> int:
    """Returns how many of ``wanted`` columns fit side by side."""
    return current_style().columns(min(wanted, _MOST_COLUMNS), _LEAST)


def stacked(
    blocks: Sequence[StackBlock],
    title: str,
    *,
    right: float,
    legend: Sequence[tuple[Artist, str]] = (),
    notes: Sequence[str] = (),
    ticks_below: bool = False,
) -> PanelStack:
    """Returns a figure with empty panels for ``blocks``, from the top.

    Args:
        blocks: the rows; panels of all blocks have the same width, so that their horizontal axes are aligned.
        title: the title of the figure.
        right: inches right of the panels, e.g. for colour bars.
        legend: handles and labels of the legend below the panels.
        notes: sentences below the legend.
        ticks_below: whether every row has a horizontal axis of its own.
    """
    style, figure = current_style(), LabFigure()
    width_of, title_width = _ruler(figure, None), _ruler(figure, float(matplotlib.rcParams["axes.titlesize"]))
    small_width = _ruler(figure, small())
    rows = [row for block in blocks for row in block.rows]
    names = {row.title: _broken(row.title, width_of) for row in rows}
    labels_width = max((small_width(label) for row in rows if row.title for label in row.labels), default=0.0)
    alone = max((small_width(label) for row in rows if not row.title for label in row.labels), default=0.0)
    left = max(max(map(width_of, names.values())) + labels_width + scaled(0.24), alone + scaled(0.2))
    ticks = scaled(_TICKS) if ticks_below else 0.0
    right, gap, columns = scaled(right), scaled(0.16), max(len(block.columns) for block in blocks)
    width = style.narrow if columns == 1 else style.wide
    if width is None:
        width = left + right + columns * (_WIDTHS[columns] + gap) - gap
    panel = (width - left - right + gap) / columns - gap

    foot = [wrapped(literal(note), small_width, width - scaled(0.2)) for note in notes]
    foot_height = scaled(_LINE) * sum(note.count("\n") + 1 for note in foot)
    shown = max([1, *(count for count in range(1, len(legend) + 1)
                      if sum(small_width(label) + scaled(0.5) for _, label in legend[:count]) < width)])  # fmt: skip
    legend_height = scaled(0.2) * -(-len(legend) // shown)
    titles = [[wrapped(text, title_width, panel) for text in block.columns] for block in blocks]
    heads = [scaled(0.2) * max(text.count("\n") + 1 for text in of_block) + scaled(0.04) for of_block in titles]
    heading = "" if style.captioned else wrapped(literal(title), title_width, width / 1.25)
    top = scaled(_MARGIN) + (scaled(0.22) * (heading.count("\n") + 1) if heading else 0.0)
    height = (
        top + sum(heads) + sum(map(_room, rows)) + ticks * (len(rows) - len(blocks)) + scaled(_AXIS) * len(blocks)
        + legend_height + foot_height + scaled(2 * _MARGIN)
    )  # fmt: skip
    figure.set_size_inches(width, height)
    figure.caption = title
    if heading:
        figure.suptitle(heading, y=1 - scaled(_MARGIN) / height, va="top")

    def write(text: str, x: float, y: float, **style: object) -> None:
        figure.text(x / width, y / height, text, **style)  # type: ignore[arg-type]

    down, panels, beside = height - top, [], []
    for block, of_block, head in zip(blocks, titles, heads, strict=True):
        down -= head
        panels_of_block, boxes = [], []
        for row in block.rows:
            if row.heading:
                down -= scaled(_HEADING)
                write(mathtext(row.heading), left, down + scaled(0.03), fontsize=small(), va="bottom")
            tall = scaled(row.height)
            down -= tall
            write(names[row.title], left - labels_width - scaled(0.14), down + tall / 2, ha="right", va="center",
                  linespacing=1.05)  # fmt: skip
            starts = [left + column * (panel + gap) for column in range(len(block.columns))]
            of_row = [figure.add_axes((at / width, down / height, panel / width, tall / height)) for at in starts]
            for column, axes in enumerate(of_row):
                first, last = column == 0, ticks_below or row is block.rows[-1]
                axes.tick_params(labelsize=small(), labelleft=first, left=first, pad=2, labelbottom=last, bottom=last)
            panels_of_block.append(tuple(of_row))
            ends = (starts[-1] + panel) / width
            boxes.append((ends, down / height, 1 - ends, tall / height))
            down -= _space(row) + (ticks if row is not block.rows[-1] else 0.0)
        for axes, text in zip(panels_of_block[0], of_block, strict=True):
            axes.set_title(text, pad=4)
        panels.append(tuple(panels_of_block))
        beside.append(tuple(boxes))
        down -= scaled(_AXIS)
    if legend:
        figure.legend(
            [handle for handle, _ in legend], [label for _, label in legend], loc="lower center", ncols=shown,
            bbox_to_anchor=(0.5, (foot_height + scaled(_MARGIN)) / height), borderaxespad=0.0, borderpad=0.0,
            fontsize=small(), handlelength=1.6, columnspacing=1.6,
        )  # fmt: skip
    if foot:
        write("\n".join(foot), width / 2, scaled(_MARGIN), ha="center", va="bottom", fontsize=small(), linespacing=1.2)
    return PanelStack(figure, tuple(panels), tuple(beside))


def _space(row: StackRow) -> float:
    """Returns the inches below a row."""
    return scaled(0.07 if row.height < 1 else 0.12)


def _room(row: StackRow) -> float:
    """Returns the inches that a row takes, with its heading and the space below it."""
    return scaled(row.height) + _space(row) + (scaled(_HEADING) if row.heading else 0.0)


def fitting(arrangement: Arrangement, ticks_below: bool = False) -> tuple[tuple[DepthMap, ...], tuple[StackRow, ...]]:
    """Returns the maps of an arrangement that fit on a page of the current style, in their order, and their rows.

    Streams come first, then the sites without relatives, then families; at least one map is drawn. ``ticks_below`` is
    that of `stacked`.
    """
    style, maps, rows = current_style(), arrangement.maps, _rows(arrangement)
    room = style.tallest - scaled(1.6) if style.fixed else _TALLEST
    ranks = [0 if drawn.large else 1 if not drawn.pattern else 2 for drawn in maps]
    kept: list[int] = []
    for index in sorted(range(len(rows)), key=lambda index: (ranks[index], index)):
        room -= _room(rows[index]) + (scaled(_TICKS) if ticks_below else 0.0)
        if room < 0 and kept:
            break
        kept.append(index)
    return tuple(maps[index] for index in sorted(kept)), tuple(rows[index] for index in sorted(kept))


def notes_on(arrangement: Arrangement, drawn: Sequence[DepthMap]) -> list[str]:
    """Returns what is said below a picture: the maps that are not ``drawn``, and the layers that never ran."""
    notes, rest = [], [each.pattern or each.title for each in arrangement.maps if each not in drawn]
    if rest:
        notes.append(f"Recorded, and not drawn here: {', '.join(rest)}; draw one with --family PATTERN.")
    if arrangement.left_out:
        notes.append(f"Left out, because they never ran: {', '.join(arrangement.left_out)}.")
    return notes


def _rows(arrangement: Arrangement) -> list[StackRow]:
    """Returns the row of every map: the stream is high, a strip low, and named sites have a line each."""
    rows = []
    with_strips = any(not drawn.large for drawn in arrangement.maps)  # and not only the family that was asked for
    for drawn in arrangement.maps:
        count = len(drawn.sites)
        if drawn.pattern and drawn.title:
            sizes = [0.4, 0.75, 1.4, 3.0] if drawn.large else [0.26, 0.38, 0.55, 0.8]
            title = f"{drawn.title}\n(blocks)" if drawn.large and with_strips else drawn.title
            rows.append(StackRow(title, float(np.interp(count, [1, 3, 6, 32], sizes)), drawn.labels))
        else:
            height = min(max(NAME * count, 0.3), _TALLEST if drawn.large else 4.0)
            rows.append(StackRow("", height, drawn.labels, heading=drawn.title))
    return rows


def _ruler(figure: LabFigure, size: float | None) -> Callable[[str], float]:
    """Returns a function that measures the widest line of a text of ``size`` points, in inches."""
    measured = Text(0, 0, "", figure=figure, fontsize=size or matplotlib.rcParams["font.size"])

    def width(text: str) -> float:
        measured.set_text(text)
        return float(measured.get_window_extent().width / figure.dpi) if text else 0.0

    return width


def _broken(title: str, width_of: Callable[[str], float]) -> str:
    """Returns the name of a row, broken at its dots where it is too long for the room at the left."""
    lines = [""]
    for piece in title.replace(".", ".\0").replace("\n", "\0\n").split("\0"):
        if piece.startswith("\n"):
            lines.append(piece[1:])
            continue
        if lines[-1] and width_of(literal(lines[-1] + piece)) > scaled(_LONGEST_TITLE):
            lines.append("")
        lines[-1] += piece
    return "\n".join(map(literal, lines))
