"""How figures show verdicts: a colour and a marker for every outcome, and the scale on which an effect is drawn."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from kymograph.claims.claim import Claim
from kymograph.claims.verdict import Outcome, Verdict
from kymograph.figures.mathematics import literal
from kymograph.figures.style import dot, stroke

# Okabe and Ito's colours, as in the report and the terminal; the markers show the same without colour.
LOOKS: dict[str, tuple[str, str]] = {
    Outcome.SUPPORTED: ("#009E73", "o"),
    Outcome.REFUTED: ("#D55E00", "X"),
    Outcome.EQUIVALENT: ("#0072B2", "s"),
    Outcome.INCONCLUSIVE: ("#7F7B66", "D"),
    Outcome.INVALID: ("#CC79A7", "^"),
}
MARGIN = "#56B4E9"


def natural(claim: Claim, value: float) -> float:
    """Returns a seed's difference unchanged, or its log ratio as a ratio, for a log axis; inf if too large."""
    if claim.scale != "log ratio":
        return value
    return math.exp(value) if value < 709 else math.inf


def no_effect(claim: Claim) -> float:
    """Returns the value that means no effect: a ratio of 1 or a difference of 0."""
    return 1.0 if claim.scale == "log ratio" else 0.0


def margins(claim: Claim) -> tuple[float, float] | None:
    """Returns both ends of the claim's margin as drawn; None if any effect matters."""
    if claim.margin == no_effect(claim):
        return None
    return (1 / claim.margin, claim.margin) if claim.scale == "log ratio" else (-claim.margin, claim.margin)


def effect_label(claim: Claim, quantity: str) -> str:
    """Returns the axis label of an effect: the quantity, and which arms are compared and how."""
    right = getattr(claim.right, "arm", claim.right)
    left, right_text = literal(claim.left.arm), f"{right:g}" if isinstance(right, float) else literal(str(right))
    sign = "/" if claim.scale == "log ratio" else "−"
    pair = f"{left} {sign} {right_text}"
    if claim.interaction is not None:
        third, fourth = (literal(one.arm) for one in claim.interaction)
        pair = f"({pair}) {sign} ({third} {sign} {fourth})"
    return f"{literal(quantity)}: {pair}"


def draw_null_and_margin(axes: Axes, claim: Claim, *, vertical: bool) -> None:
    """Draws a line at no effect, and the margin as a shaded band with dashed ends."""
    line, band = (axes.axvline, axes.axvspan) if vertical else (axes.axhline, axes.axhspan)
    ends = margins(claim)
    if ends is not None:
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


def outcome_key(verdicts: Iterable[Verdict]) -> list[Any]:
    """Returns legend entries: each outcome that occurs, the margin if a claim has one, and no effect."""
    shown = list(verdicts)
    keys = [_key(outcome) for outcome in LOOKS if any(verdict.outcome == outcome for verdict in shown)]
    if any(margins(verdict.claim) is not None for verdict in shown):
        keys.append(Line2D([], [], color=MARGIN, linestyle="--", linewidth=stroke(0.5), label="margin of the claim"))
    keys.append(Line2D([], [], color="black", linewidth=stroke(0.5), label="no effect"))
    return keys


def _key(outcome: str) -> Line2D:
    colour, marker = LOOKS[outcome]
    return Line2D([], [], color=colour, marker=marker, markersize=2 * dot(), linewidth=stroke(), label=str(outcome))
