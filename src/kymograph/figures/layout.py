"""Layout: labels wrapped to the length of their axes, and legends that hide no data."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

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
                _wrap(axes.title, width / _ROOM if axes in letters else width)  # a letter stands left of the title
                _wrap(axes.xaxis.label, width)
                _wrap(axes.yaxis.label, height)
        title = getattr(figure, "_suptitle", None)
        if title is not None:
            _wrap(title, figure.bbox.width / _ROOM)


def _wrap(label: Text, room: float) -> None:
    """Breaks one label so that no line is longer than ``room`` pixels, if possible."""
    text = label.get_text()
    if text:
        measure = _ruler(label)
        label.set_text("\n".join(wrapped(line, measure, room * _ROOM) for line in text.split("\n")))


def wrapped(line: str, measure: Callable[[str], float], room: float) -> str:
    """Returns ``line`` broken into as few lines as fit into ``room`` by ``measure``, of about equal length."""
    if measure(line) <= room:
        return line
    pieces: list[str] = []
    for word in _WORD.findall(line):
        parts = [word] if measure(word) <= room or "$" in word else _PIECE.split(word)
        pieces += [f" {parts[0]}", *parts[1:]]
    fewest = len(_break(pieces, measure, room))
    shares = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    return "\n".join(next(lines for share in shares if len(lines := _break(pieces, measure, share * room)) <= fewest))


def _break(pieces: Sequence[str], measure: Callable[[str], float], room: float) -> list[str]:
    """Returns lines with as many ``pieces`` each as fit; a piece that begins a word starts with a space."""
    lines: list[str] = []
    for piece in pieces:
        longer = (lines[-1] if lines else "") + piece
        if lines and measure(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(piece.lstrip())
    return lines


def _ruler(label: Text) -> Callable[[str], float]:
    """Returns a function that measures a line of text in pixels, in the label's font."""
    figure = label.get_figure(root=True)
    assert figure is not None
    probe = Text(0, 0, "", fontproperties=label.get_fontproperties(), figure=figure)
    known: dict[str, float] = {}

    def measure(text: str) -> float:
        if text not in known:
            probe.set_text(text)
            known[text] = probe.get_window_extent().width
        return known[text]

    return measure


def legends(figure: Figure, panels: Iterable[Axes]) -> None:
    """Draws one legend for all panels below the figure; an entry that differs between panels says where, by letter."""
    letters = panel_letters(figure)
    found: dict[str, tuple[object, dict[str, list[str]]]] = {}
    for axes in (axes for axes in panels if axes.get_visible()):
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            noted = letters and label.endswith(")")  # a single panel has no letter to refer to
            name, _, note = label[:-1].rpartition(" (") if noted else (label, "", "")
            _, where = found.setdefault(name, (handle, {}))
            where.setdefault(note, []).append(letters.get(axes, ""))
    labels = []
    for name, (_, where) in found.items():
        notes = [f"{', '.join(at)}: {note}" if len(where) > 1 else note for note, at in where.items() if note]
        labels.append(f"{name} ({'; '.join(notes)})" if notes else name)
    if found:
        _below(figure, [handle for handle, _ in found.values()], labels)


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


def _below(figure: Figure, handles: list, names: list[str]) -> None:
    """Draws one legend below the figure, in as many columns as fit, and makes the figure taller by its height."""
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
    _grow(figure, legend.get_window_extent().height / figure.dpi)


def _grow(figure: Figure, inches: float) -> None:
    """Makes the figure taller, but not taller than its look allows."""
    height, look = figure.get_figheight(), getattr(figure, "look", None)
    most = max(height, look.tallest) if look is not None and look.fixed else height + inches
    figure.set_figheight(min(height + inches, most))
