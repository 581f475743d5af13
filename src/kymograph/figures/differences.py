"""The paired differences (or ratios) behind every claim: a dot per seed, the effect, its interval and the margin."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from kymograph.claims.across_settings import ClaimAcrossSettings, across_settings, point_text
from kymograph.claims.display_names import measure_name
from kymograph.claims.verdict import Verdict
from kymograph.errors import KymographError
from kymograph.figures.mathematics import literal
from kymograph.figures.outcomes import LOOKS, draw_null_and_margin, effect_label, label_ratios, natural, outcome_key
from kymograph.figures.scales import LARGEST
from kymograph.figures.style import LabFigure, dot, panel_grid, stroke, styled
from kymograph.runs.declaration import Declaration
from kymograph.runs.store import Store

PART = {"about": "the paired differences behind every claim, a dot per seed", "order": 4, "of": "claims"}
COLUMNS = ("claim", "settings", "outcome", "scale", "margin", "n", "seed", "left", "right", "value")
MOST_PANELS = 40
_SEEDS = "#8C8C8C"
_ROWS = 0.34  # height of the stack of dots, as a share of the row


@styled
def draw(store: Store, declaration: Declaration, verdicts: Sequence[Verdict]) -> LabFigure:
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
        _panel(figure, axes, claim, declaration)
    figure.legend(handles=outcome_key(verdict for one in shown for verdict in one.verdicts),
                  loc="outside lower center", ncols=3)  # fmt: skip
    left_out = f" ({len(shown)} of {len(claims)} claims)" if len(shown) < len(claims) else ""
    figure.entitle(f"Paired differences behind the claims of {declaration.name}, with 95 % intervals{left_out}")
    return figure


def _panel(figure: LabFigure, axes: Axes, group: ClaimAcrossSettings, declaration: Declaration) -> None:
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
        figure.note(COLUMNS, _rows(group.name, where, verdict))
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
    colour, marker = LOOKS[verdict.outcome]
    values = [natural(claim, point.value) for point in verdict.points]
    drawn = np.array([value for value in values if abs(value) <= LARGEST and (value > 0 or claim.scale != "log ratio")])
    if len(drawn):
        scaled = np.log(drawn) if claim.scale == "log ratio" else drawn
        axes.plot(drawn, row - 0.08 - _ROWS * stacked(scaled), "o", color=_SEEDS, markersize=1.5 * dot(), alpha=0.7,
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
        level = next((one for one in range(levels) if values[index] - last[one] > 0.035 * span), None)
        chosen = int(np.argmin(last)) if level is None else level
        heights[index] = chosen / (levels - 1)
        last[chosen] = values[index]
    return heights


def _rows(name: str, where: str, verdict: Verdict) -> list[tuple]:
    """Returns the seeds and the effect of one verdict as rows of the figure's table."""
    claim = verdict.claim
    head = (name, where, str(verdict.outcome), claim.scale, claim.margin, verdict.n)
    rows: list[tuple] = [
        (*head, point.seed, point.left, point.right, natural(claim, point.value)) for point in verdict.points
    ]
    if verdict.effect is not None and verdict.interval is not None:
        ends = {"effect": verdict.effect, "low": verdict.interval[0], "high": verdict.interval[1]}
        rows += [(*head, what, None, None, value) for what, value in ends.items()]
    return rows or [(*head, None, None, None, None)]
