"""Verdicts in figures: paired differences, and effects over a grid."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from kymograph._claims.claim import Claim, measure_name
from kymograph._claims.estimands import natural
from kymograph._claims.grid import ClaimAcrossSettings, across_settings, point_text
from kymograph._claims.verdict import Outcome, Verdict
from kymograph._errors import KymographError
from kymograph._pictures.canvas import LabFigure, dot, panel_grid, stroke, styled, wrap_labels
from kymograph._pictures.scales import LARGEST, has_margin, margin_ends, no_effect
from kymograph._pictures.styles import literal
from kymograph._runs.declaration import Declaration
from kymograph._runs.store import Store

PARTS = {
    "differences": {
        "attribute": "draw_differences",
        "about": "the paired differences behind every claim, a dot per seed",
        "order": 4,
        "of": "claims",
    },
    "grid": {
        "attribute": "draw_grid",
        "about": "the effect behind every claim against the settings of a grid",
        "order": 5,
        "of": "claims",
        "needs_grid": True,
    },
}


# Okabe and Ito's colours, as in the report and the terminal; the markers show the same without colour.
OUTCOME_STYLES: dict[str, tuple[str, str]] = {
    Outcome.SUPPORTED: ("#009E73", "o"),
    Outcome.REFUTED: ("#D55E00", "X"),
    Outcome.EQUIVALENT: ("#0072B2", "s"),
    Outcome.INCONCLUSIVE: ("#7F7B66", "D"),
    Outcome.INVALID: ("#CC79A7", "^"),
}
MARGIN = "#56B4E9"
GREY = "#8C8C8C"


def effect_label(claim: Claim, quantity: str) -> str:
    """Returns the axis label of an effect: the quantity, and which arms are compared and how."""
    right = getattr(claim.right, "arm", claim.right)
    left, right_text = literal(claim.left.arm), f"{right:g}" if isinstance(right, float) else literal(str(right))
    sign = "/" if claim.scale == "log ratio" else "−"
    pair = f"{left} {sign} {right_text}"
    if claim.interaction is not None:
        third, fourth = (literal(side.arm) for side in claim.interaction)
        pair = f"({pair}) {sign} ({third} {sign} {fourth})"
    return f"{literal(quantity)}: {pair}"


def draw_null_and_margin(axes: Axes, claim: Claim, *, vertical: bool) -> None:
    """Draws a line at no effect, and the margin as a shaded band with dashed ends."""
    line, band = (axes.axvline, axes.axvspan) if vertical else (axes.axhline, axes.axhspan)
    if has_margin(claim):
        ends = margin_ends(claim)
        band(*ends, color=MARGIN, alpha=0.12, linewidth=0, zorder=0)
        for end in ends:
            line(end, color=MARGIN, linewidth=stroke(0.5), linestyle="--", zorder=1)
    line(no_effect(claim), color="black", linewidth=stroke(0.5), zorder=1)


def label_ratios(axis: Axis) -> None:
    """Labels a log axis of ratios with plain numbers, even where it spans less than a decade."""
    low, high = axis.get_view_interval()
    if high < 20 * low:
        ticks = [tick for tick in MaxNLocator(5, steps=[1, 2, 5, 10]).tick_values(low, high) if low <= tick <= high]
        axis.set_major_locator(FixedLocator(list(np.unique([*ticks, 1.0] if low <= 1 <= high else ticks))))
        axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def outcome_key(verdicts: Iterable[Verdict]) -> list[Line2D]:
    """Returns legend entries: each outcome that occurs, the margin if a claim has one, and no effect."""
    shown = list(verdicts)
    keys = [
        Line2D([], [], color=colour, marker=marker, markersize=2 * dot(), linewidth=stroke(), label=str(outcome))
        for outcome, (colour, marker) in OUTCOME_STYLES.items()
        if any(verdict.outcome == outcome for verdict in shown)
    ]
    if any(has_margin(verdict.claim) for verdict in shown):
        keys.append(Line2D([], [], color=MARGIN, linestyle="--", linewidth=stroke(0.5), label="margin of the claim"))
    keys.append(Line2D([], [], color="black", linewidth=stroke(0.5), label="no effect"))
    return keys


DIFFERENCE_COLUMNS = ("claim", "settings", "outcome", "scale", "margin", "n", "seed", "left", "right", "value")
MOST_PANELS = 40
_ROWS = 0.34  # height of the stack of dots, as a share of the row


@styled
def draw_differences(store: Store, declaration: Declaration, verdicts: Sequence[Verdict]) -> LabFigure:
    """Draws a panel per claim, with a row per setting at which it was judged.

    The table behind it has a row per seed with both numbers, then the effect and its interval's ends, each as a "seed".
    """
    claims = across_settings(verdicts)
    if not claims:
        raise KymographError(f"no claim of {declaration.name} was judged, so there are no differences to draw")
    shown = claims[:MOST_PANELS]
    rows = max(len(claim.verdicts) for claim in shown)
    figure, grid = panel_grid(len(shown), (4.8, 1.6 + 0.45 * rows), 2, least=2.6)
    for axes, claim in zip(grid, shown, strict=True):
        _differences_panel(figure, axes, claim, declaration)
    figure.legend(handles=outcome_key(verdict for claim in shown for verdict in claim.verdicts),
                  loc="outside lower center", ncols=3)  # fmt: skip
    left_out = f" ({len(shown)} of {len(claims)} claims)" if len(shown) < len(claims) else ""
    figure.entitle(f"Paired differences behind the claims of {declaration.name}, with 95 % intervals{left_out}")
    return figure


def _differences_panel(figure: LabFigure, axes: Axes, group: ClaimAcrossSettings, declaration: Declaration) -> None:
    """Draws one claim: dots above, the effect with its interval below, in a row per setting."""
    claim = group.verdicts[0].claim
    if claim.scale == "log ratio":
        axes.set_xscale("log")
    draw_null_and_margin(axes, claim, vertical=True)
    names = []
    for row, verdict in enumerate(group.verdicts):
        where = point_text(group.point(verdict))
        names.append(f"{literal(where)}\n(n = {verdict.n})" if where else "")
        _row(axes, verdict, row)
        figure.note(DIFFERENCE_COLUMNS, _rows(group.name, where, verdict))
    if claim.scale == "log ratio":
        label_ratios(axes.xaxis)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_yticks(range(len(names)) if group.settings else [], names if group.settings else [])
    axes.grid(False, axis="y")
    if not any(verdict.points for verdict in group.verdicts):
        axes.set_xticks([])
    axes.set_xlabel(effect_label(claim, measure_name(claim.left.measure, declaration)))
    last = group.verdicts[-1]
    alone = f"\n{last.outcome}, n = {last.n}" if not group.settings else ""
    axes.set_title("\n".join(map(literal, textwrap.wrap(group.name, 44))) + alone)


def _row(axes: Axes, verdict: Verdict, row: int) -> None:
    claim = verdict.claim
    colour, marker = OUTCOME_STYLES[verdict.outcome]
    values = [natural(claim, point.value) for point in verdict.points]
    drawn = np.array([value for value in values if abs(value) <= LARGEST and (value > 0 or claim.scale != "log ratio")])
    if len(drawn):
        scaled = np.log(drawn) if claim.scale == "log ratio" else drawn
        axes.plot(drawn, row - 0.08 - _ROWS * stacked(scaled), "o", color=GREY, markersize=1.5 * dot(), alpha=0.7,
                  markeredgewidth=0, rasterized=len(drawn) > 500)  # fmt: skip
    if verdict.effect is not None and verdict.interval is not None and abs(verdict.effect) <= LARGEST:
        ends = [end for end in verdict.interval if abs(end) <= LARGEST]
        if len(ends) == 2:
            axes.plot(ends, [row + 0.2] * 2, color=colour, linewidth=stroke(1.2), solid_capstyle="butt")
        axes.plot([verdict.effect], [row + 0.2], marker, color=colour, markersize=2.4 * dot(), markeredgewidth=0)
    elif verdict.effect is None:
        words = "\n".join(map(literal, textwrap.wrap(f"{verdict.outcome}: {verdict.reason}", 64)[:3]))
        axes.text(
            0.5, row + 0.06, words, transform=axes.get_yaxis_transform(), ha="center", va="top", fontsize="x-small"
        )


def stacked(values: np.ndarray, levels: int = 4) -> np.ndarray:
    """Returns the height of each dot, from 0 to 1, shape (n,), such that nearby ``values`` (n,) do not overlap."""
    heights = np.zeros(len(values))
    span = float(np.ptp(values)) or 1.0
    last = [-math.inf] * levels
    for index in np.argsort(values, kind="stable"):
        level = next((level for level in range(levels) if values[index] - last[level] > 0.035 * span), None)
        chosen = int(np.argmin(last)) if level is None else level
        heights[index] = chosen / (levels - 1)
        last[chosen] = values[index]
    return heights


def _rows(name: str, where: str, verdict: Verdict) -> list[tuple[Any, ...]]:
    """Returns the seeds and the effect of one verdict as rows of the figure's table."""
    claim = verdict.claim
    head = (name, where, str(verdict.outcome), claim.scale, claim.margin, verdict.n)
    rows: list[tuple[Any, ...]] = [
        (*head, point.seed, point.left, point.right, natural(claim, point.value)) for point in verdict.points
    ]
    if verdict.effect is not None and verdict.interval is not None:
        ends = {"effect": verdict.effect, "low": verdict.interval[0], "high": verdict.interval[1]}
        rows += [(*head, what, None, None, value) for what, value in ends.items()]
    return rows or [(*head, None, None, None, None)]


GRID_COLUMNS = ("claim", "panel", "setting", "x", "outcome", "n", "effect", "low", "high", "margin", "scale")


@styled
def draw_grid(store: Store, declaration: Declaration, verdicts: Sequence[Verdict]) -> LabFigure:
    """Draws a panel per claim, and per combination of the other settings if the grid varies several.

    The setting with the most values is on the horizontal axis, which is logarithmic if the values are spaced by ratio.
    """
    claims = [claim for claim in across_settings(verdicts) if claim.settings]
    if not claims:
        raise KymographError(f"no claim of {declaration.name} was judged at several settings; run it with --grid")
    panels = [(claim, other, panel_verdicts) for claim in claims for other, panel_verdicts in _panels(claim)]
    shown = panels[:MOST_PANELS]
    figure, grid = panel_grid(len(shown), (4.4, 3.0), 3 if len(shown) > 2 else 2, least=2.2)
    for axes, (claim, other, panel_verdicts) in zip(grid, shown, strict=True):
        _grid_panel(figure, axes, claim, other, panel_verdicts, declaration)
    for name in dict.fromkeys(claim.name for claim, _, _ in shown):  # panels of one claim share their vertical axis
        same = [axes for axes, (claim, _, _) in zip(grid, shown, strict=True) if claim.name == name]
        low, high = min(axes.get_ylim()[0] for axes in same), max(axes.get_ylim()[1] for axes in same)
        for axes in same:
            axes.set_ylim(low, high)
            if axes.get_yscale() == "log":
                label_ratios(axes.yaxis)
    figure.legend(handles=outcome_key(verdict for _, _, panel_verdicts in shown for verdict in panel_verdicts),
                  loc="outside lower center", ncols=3)  # fmt: skip
    left_out = f" ({len(shown)} of {len(panels)} panels)" if len(shown) < len(panels) else ""
    figure.entitle(f"Effects over the grid of {declaration.name}, with 95 % intervals{left_out}")
    wrap_labels(figure, figure.style.leading)  # in every style, because effects have long labels and low panels
    figure.finished = True
    return figure


def is_geometric(values: Sequence[Any]) -> bool:
    """Returns whether numbers call for a log axis: positive, and spaced more evenly by ratio than by difference.

    >>> is_geometric([0.1, 0.03, 0.01]), is_geometric([1, 2, 3, 4]), is_geometric([0.0, 0.1])
    (True, False, False)
    """
    if not _are_numbers(values) or len(values) < 2 or min(values) <= 0:
        return False
    ordered = np.sort(np.array(values, dtype=np.float64))
    if len(ordered) == 2:
        return bool(ordered[1] >= 3 * ordered[0])
    steps = [np.diff(ordered), np.diff(np.log(ordered))]
    linear, log = (float(step.std() / step.mean()) for step in steps)
    return log < linear


def _panels(claim: ClaimAcrossSettings) -> list[tuple[str, list[Verdict]]]:
    """Returns the verdicts along the axis for every combination of the other settings, which is given in words."""
    along = _along(claim)
    rest = [name for name in claim.settings if name != along]
    panels: dict[str, list[Verdict]] = {}
    for verdict in claim.verdicts:
        point = claim.point(verdict)
        panels.setdefault(point_text({name: point[name] for name in rest}), []).append(verdict)
    return list(panels.items())


def _along(claim: ClaimAcrossSettings) -> str:
    """Returns the setting on the horizontal axis: the one with the most values, numbers before names."""

    def rank(name: str) -> tuple[bool, int]:
        values = [claim.point(verdict)[name] for verdict in claim.verdicts]
        return _are_numbers(values), len({repr(value) for value in values})

    return max(claim.settings, key=rank)


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _grid_panel(
    figure: LabFigure,
    axes: Axes,
    claim: ClaimAcrossSettings,
    other: str,
    verdicts: list[Verdict],
    declaration: Declaration,
) -> None:
    """Draws the effects of one claim along one setting; marker and colour show the verdict."""
    setting, first = _along(claim), claim.verdicts[0].claim
    values = [claim.point(verdict)[setting] for verdict in verdicts]
    numeric = _are_numbers(values)
    if numeric:
        order = sorted(range(len(values)), key=lambda index: values[index])
        values, verdicts = [values[index] for index in order], [verdicts[index] for index in order]
    positions = [float(value) for value in values] if numeric else [float(index) for index in range(len(values))]
    if first.scale == "log ratio":
        axes.set_yscale("log")
    if numeric and is_geometric(values):
        axes.set_xscale("log")
    draw_null_and_margin(axes, first, vertical=False)
    effects = [
        (x, verdict.effect) for x, verdict in zip(positions, verdicts, strict=True) if verdict.effect is not None
    ]
    axes.plot([x for x, _ in effects], [effect for _, effect in effects], color=GREY, linewidth=stroke(0.5), zorder=2)
    for x, value, verdict in zip(positions, values, verdicts, strict=True):
        _point(axes, x, verdict)
        low, high = verdict.interval or (None, None)
        figure.note(GRID_COLUMNS, [(claim.name, other, setting, x if numeric else value, str(verdict.outcome),
                                    verdict.n, verdict.effect, low, high, first.margin, first.scale)])  # fmt: skip
    axes.set_xticks(positions, [literal(str(value)) for value in values])
    axes.minorticks_off()
    axes.set_xlabel(literal(setting))
    axes.set_ylabel(effect_label(first, measure_name(first.left.measure, declaration)))
    counts = sorted({verdict.n for verdict in verdicts})
    n = f"n = {counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
    title = map(literal, textwrap.wrap(claim.name, 40))
    axes.set_title("\n".join([*title, ", ".join(text for text in (literal(other), n) if text)]))


def _point(axes: Axes, x: float, verdict: Verdict) -> None:
    colour, marker = OUTCOME_STYLES[verdict.outcome]
    if verdict.effect is None or not abs(verdict.effect) <= LARGEST:
        axes.plot([x], [0.03], marker, color=colour, markersize=2.4 * dot(), transform=axes.get_xaxis_transform())
        return
    ends = [end for end in verdict.interval or () if abs(end) <= LARGEST]
    for low, high in itertools.pairwise(ends):
        axes.plot([x, x], [low, high], color=colour, linewidth=stroke(), solid_capstyle="butt", zorder=3)
    axes.plot([x], [verdict.effect], marker, color=colour, markersize=2.6 * dot(), markeredgewidth=0, zorder=4)
