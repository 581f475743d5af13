"""The forest plot: one row per claim, with its effect and interval in units of the claim's margin.

Effects in the claimed direction are drawn to the right, and the margins are at -1 and 1. An inverse hyperbolic sine
compresses large effects, so that all claims fit on one axis.
"""

from __future__ import annotations

import math

from markupsafe import Markup

from kymograph._claims.claim import ABSENCES, Claim
from kymograph._claims.decision import direction_sign
from kymograph._claims.verdict import Verdict, effect_text
from kymograph._pictures.report_page.svg import Frame, element, picture
from kymograph._pictures.scales import has_margin

WIDTH, HEIGHT = 300, 42
FARTHEST = 30.0
"""In margins; a larger effect is drawn at the edge, and an interval that extends further ends in an arrow."""
TICKS = (-10.0, -1.0, 0.0, 1.0, 10.0)
_PAD = 12


def in_margins(claim: Claim, value: float) -> float:
    """Returns an effect in units of the claim's margin, positive in the claimed direction.

    Without a margin, the unit is 1 for differences and a factor of e for ratios.
    """
    ratio = claim.scale == "log ratio"
    if ratio and value <= 0:
        return math.nan if value < 0 else -math.inf * direction_sign(claim)
    size = math.log(value) if ratio and math.isfinite(value) else value
    margin = math.log(claim.margin) if ratio else claim.margin
    return direction_sign(claim) * size / (margin or 1.0)


def position(margins: float) -> float:
    """Returns the horizontal position, in pixels, of an effect given in margins."""
    inside = max(-FARTHEST, min(FARTHEST, margins))
    return WIDTH / 2 + math.asinh(2 * inside) / math.asinh(2 * FARTHEST) * (WIDTH / 2 - _PAD)


def forest_row(verdict: Verdict) -> Markup:
    """Returns one row: the claimed range, shaded; lines at the margin and at no effect; the effect and its interval."""
    claim, middle = verdict.claim, HEIGHT / 2
    outcome = str(verdict.outcome).lower()
    label = f"{claim.name}: {verdict.outcome}, effect {effect_text(verdict, typeset=True) or 'unknown'}"
    if verdict.effect is None or math.isnan(in_margins(claim, verdict.effect)):
        words = element("text", "no effect computed", class_="absent", x=WIDTH / 2, y=middle + 4, text_anchor="middle")
        return picture(Frame(width=WIDTH, height=HEIGHT), label, words)
    parts: list[object] = []
    if has_margin(claim):
        low, high = _claimed(claim)
        parts.append(element("rect", class_="claimed", x=low, y=0, width=high - low, height=HEIGHT))
        parts += [
            element("line", class_="limit", x1=at, x2=at, y1=0, y2=HEIGHT) for at in (position(-1.0), position(1.0))
        ]
    else:
        parts.append(
            element("rect", class_="claimed", x=position(0.0), y=0, width=WIDTH - position(0.0), height=HEIGHT)
        )
    parts.append(element("line", class_="none", x1=position(0.0), x2=position(0.0), y1=0, y2=HEIGHT))
    ends = sorted(in_margins(claim, end) for end in verdict.interval or () if not math.isnan(end))
    if len(ends) == 2:
        first, last = map(position, ends)
        parts.append(element("line", class_=f"whisker {outcome}", x1=first, x2=last, y1=middle, y2=middle))
        for end, at, way in zip(ends, (first, last), (-1, 1), strict=True):
            if abs(end) > FARTHEST:  # the interval extends beyond the axis
                tip = f"M{at + 5 * way:.1f},{middle}l{-6 * way},-4v8Z"
                parts.append(element("path", class_=f"mark {outcome}", d=tip))
            else:
                parts.append(element("line", class_=f"whisker {outcome}", x1=at, x2=at, y1=middle - 4, y2=middle + 4))
    parts.append(_mark(position(in_margins(claim, verdict.effect)), middle, outcome))
    return picture(Frame(width=WIDTH, height=HEIGHT), label, *parts)


def _mark(x: float, y: float, outcome: str) -> Markup:
    """Returns the effect's mark, whose shape shows the outcome to readers who cannot see its colour."""
    shapes = {
        "supported": f"M{x - 5:.1f},{y}a5,5 0 1 0 10,0a5,5 0 1 0 -10,0Z",
        "refuted": f"M{x - 5:.1f},{y - 5}l10,10m0,-10l-10,10",
        "equivalent": f"M{x - 4.5:.1f},{y - 4.5}h9v9h-9Z",
        "inconclusive": f"M{x:.1f},{y - 6}l6,6l-6,6l-6,-6Z",
        "invalid": f"M{x:.1f},{y - 5}l5.5,10h-11Z",
    }
    return element("path", class_=f"mark {outcome}", d=shapes[outcome])


def _claimed(claim: Claim) -> tuple[float, float]:
    """Returns the range of the effect, in pixels, if the claim is true."""
    if claim.direction == "equal":
        return position(-1.0), position(1.0)
    return position(-1.0 if claim.direction in ABSENCES else 1.0), float(WIDTH)


def forest_axis() -> Markup:
    """Returns the axis above the rows, in margins."""
    height = 34
    parts: list[object] = [
        element("text", "effect in margins", x=_PAD, y=12),
        element("text", "grey: as claimed", class_="label", x=WIDTH - _PAD, y=12, text_anchor="end"),
    ]
    parts += [
        element("line", class_="axis", x1=position(at), x2=position(at), y1=height - 4, y2=height) for at in TICKS
    ]
    parts += [*_tick_labels(28), element("line", class_="axis", x1=0, x2=WIDTH, y1=height, y2=height)]
    return picture(Frame(width=WIDTH, height=height), "effect axis, in units of each claim's margin", *parts)


def forest_ticks() -> Markup:
    """Returns an axis below a single row, for screens too narrow for a column with one axis above."""
    parts: list[object] = [element("line", class_="axis", x1=0, x2=WIDTH, y1=0.5, y2=0.5)]
    parts += [element("line", class_="axis", x1=position(at), x2=position(at), y1=0, y2=4) for at in TICKS]
    return picture(Frame(width=WIDTH, height=18), "effect axis, in margins", *parts, *_tick_labels(16))


def _tick_labels(y: float) -> list[object]:
    texts = [f"{tick:+g}".replace("-", "−") if tick else "0" for tick in TICKS]
    return [
        element("text", text, x=position(tick), y=y, text_anchor="middle")
        for tick, text in zip(TICKS, texts, strict=True)
    ]
