"""The effect behind every claim against the setting that a grid varies, with its interval, margin and verdict."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from kymograph.claims.across_settings import ClaimAcrossSettings, across_settings, point_text
from kymograph.claims.display_names import measure_name
from kymograph.claims.verdict import Verdict
from kymograph.errors import KymographError
from kymograph.figures.layout import wrap_labels
from kymograph.figures.mathematics import literal
from kymograph.figures.outcomes import LOOKS, draw_null_and_margin, effect_label, label_ratios, outcome_key
from kymograph.figures.scales import LARGEST
from kymograph.figures.style import LabFigure, dot, panel_grid, stroke, styled
from kymograph.runs.declaration import Declaration
from kymograph.runs.store import Store

PART = {"about": "the effect behind every claim against the settings of a grid", "order": 5, "of": "claims",
        "needs_grid": True}  # fmt: skip
COLUMNS = ("claim", "panel", "setting", "x", "outcome", "n", "effect", "low", "high", "margin", "scale")
MOST_PANELS = 40


@styled
def draw(store: Store, declaration: Declaration, verdicts: Sequence[Verdict]) -> LabFigure:
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
        _panel(figure, axes, claim, other, panel_verdicts, declaration)
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
    wrap_labels(figure, figure.look.leading)  # in every look, because effects have long labels and low panels
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
    linear, log = (float(one.std() / one.mean()) for one in steps)
    return log < linear


def _panels(claim: ClaimAcrossSettings) -> list[tuple[str, list[Verdict]]]:
    """Returns the verdicts along the axis for every combination of the other settings, which is given in words."""
    along = _along(claim)
    rest = [name for name in claim.settings if name != along]
    found: dict[str, list[Verdict]] = {}
    for verdict in claim.verdicts:
        point = claim.point(verdict)
        found.setdefault(point_text({name: point[name] for name in rest}), []).append(verdict)
    return list(found.items())


def _along(claim: ClaimAcrossSettings) -> str:
    """Returns the setting on the horizontal axis: the one with the most values, numbers before names."""

    def rank(name: str) -> tuple[bool, int]:
        values = [claim.point(verdict)[name] for verdict in claim.verdicts]
        return _are_numbers(values), len({repr(value) for value in values})

    return max(claim.settings, key=rank)


def _are_numbers(values: Sequence[Any]) -> bool:
    return all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)


def _panel(
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
    known = [(x, one.effect) for x, one in zip(positions, verdicts, strict=True) if one.effect is not None]
    axes.plot([x for x, _ in known], [effect for _, effect in known], color="#8C8C8C",
              linewidth=stroke(0.5), zorder=2)  # fmt: skip
    for x, verdict in zip(positions, verdicts, strict=True):
        _point(axes, x, verdict)
    for x, value, verdict in zip(positions, values, verdicts, strict=True):
        low, high = verdict.interval or (None, None)
        figure.note(COLUMNS, [(claim.name, other, setting, value if not numeric else x, str(verdict.outcome), verdict.n,
                               verdict.effect, low, high, first.margin, first.scale)])  # fmt: skip
    axes.set_xticks(positions, [literal(str(value)) for value in values])
    axes.minorticks_off()
    axes.set_xlabel(literal(setting))
    axes.set_ylabel(effect_label(first, measure_name(first.left.measure, declaration)))
    counts = sorted({verdict.n for verdict in verdicts})
    n = f"n = {counts[0]}" + (f" to {counts[-1]}" if len(counts) > 1 else "")
    title = map(literal, textwrap.wrap(claim.name, 40))
    axes.set_title("\n".join([*title, ", ".join(text for text in (literal(other), n) if text)]))


def _point(axes: Axes, x: float, verdict: Verdict) -> None:
    colour, marker = LOOKS[verdict.outcome]
    if verdict.effect is None or not abs(verdict.effect) <= LARGEST:
        axes.plot([x], [0.03], marker, color=colour, markersize=2.4 * dot(), transform=axes.get_xaxis_transform())
        return
    ends = [end for end in verdict.interval or () if abs(end) <= LARGEST]
    for low, high in itertools.pairwise(ends):
        axes.plot([x, x], [low, high], color=colour, linewidth=stroke(), solid_capstyle="butt", zorder=3)
    axes.plot([x], [verdict.effect], marker, color=colour, markersize=2.6 * dot(), markeredgewidth=0, zorder=4)
