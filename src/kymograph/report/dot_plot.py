"""The picture behind a verdict: a dot per seed, the intervals below, the claimed range shaded."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from kymograph.claims.claim import ABSENCES, Claim
from kymograph.claims.verdict import Point, Verdict, effect_text
from kymograph.figures.mathematics import svg_mathematics
from kymograph.report.svg import Frame, Scale, element, labels, number, picture, scale_over

WIDTH = 400
_DOT = 4.0
MOST_SEEDS = 200
"""The most seeds of a claim that are drawn and listed."""


def sampled_by_rank(points: Sequence[Point]) -> Sequence[Point]:
    """Returns at most `MOST_SEEDS` points, evenly spaced by rank, so that they represent the whole sample."""
    if len(points) <= MOST_SEEDS:
        return points
    order = sorted(range(len(points)), key=lambda index: points[index].value)
    step = (len(points) - 1) / (MOST_SEEDS - 1)
    kept = {order[round(rank * step)] for rank in range(MOST_SEEDS)}
    return [point for index, point in enumerate(points) if index in kept]


def equivalence_level(verdict: Verdict) -> str:
    """Returns the confidence level of the interval used for equivalence, as text."""
    return f"{100 * (verdict.equivalence_level or math.nan):.4g} %"


def dot_plot(verdict: Verdict, sides: Sequence[str]) -> Markup:
    """Returns the picture: one dot per seed, the intervals below, the claimed range shaded as in the forest plot.

    ``sides`` are the names of the two compared sides.
    """
    claim = verdict.claim
    ratio = claim.scale == "log ratio"
    none = 1.0 if ratio else 0.0
    limits = (1 / claim.margin, claim.margin) if ratio else (-claim.margin, claim.margin)
    dots = [(point, _shown(point.value, ratio)) for point in sampled_by_rank(verdict.points)]
    dots = [(point, value) for point, value in dots if math.isfinite(value) and (value > 0 or not ratio)]
    intervals = [
        ("95 % t", verdict.interval),
        (f"{equivalence_level(verdict)} t", verdict.equivalence_interval),
        ("95 % BCa", verdict.bca),
    ]
    shown = [(name, ends) for name, ends in intervals if ends is not None and all(map(math.isfinite, ends))]
    if not dots and not shown:
        return Markup("")
    everything = [value for _, value in dots] + [end for _, ends in shown for end in ends] + [none, *limits]
    frame = Frame(width=WIDTH, height=0, left=64, right=14)
    left, right = frame.left, WIDTH - frame.right
    x = scale_over(everything, left, right, ratio, pad=0.06)
    rows = _swarm([x.at(value) for _, value in dots])
    first = 30 + max(rows, default=0) * 2 * _DOT  # the base line of the dots
    top, bottom = 20, first + 14 + 16 * len(shown)
    height = int(bottom + 40)
    least, most = claimed_range(claim)
    start, end = left if least is None else x.at(least), right if most is None else x.at(most)
    parts: list[object] = [element("rect", class_="claimed", x=start, y=top, width=end - start, height=bottom - top)]
    if limits[1] > limits[0]:
        low, high = x.at(limits[0]), x.at(limits[1])
        parts += [element("line", class_="limit", x1=at, x2=at, y1=top, y2=bottom) for at in (low, high)]
    parts.append(element("line", class_="none", x1=x.at(none), x2=x.at(none), y1=top, y2=bottom))
    for (point, value), at, row in zip(dots, (x.at(v) for _, v in dots), rows, strict=True):
        tip = (
            f"seed {point.seed}: {sides[0]} {number(point.left)}, {sides[1]} {number(point.right)}; "
            f"{'ratio' if ratio else 'difference'} {number(value)}"
        )
        parts.append(element("circle", class_="seed", data_tip=tip, cx=at, cy=first - row * 2 * _DOT, r=_DOT))
    parts.append(element("text", "seeds", x=left - 8, y=first + 4, text_anchor="end"))
    for index, (name, ends) in enumerate(shown):
        y = first + 18 + 16 * index
        tip = f"{name} interval: {number(ends[0])} to {number(ends[1])}"
        parts.append(element("text", name, x=left - 8, y=y + 4, text_anchor="end"))
        parts.append(element("line", class_="ends", data_tip=tip, x1=x.at(ends[0]), x2=x.at(ends[1]), y1=y, y2=y))
        parts += [element("line", class_="ends", x1=x.at(e), x2=x.at(e), y1=y - 3, y2=y + 3) for e in ends]
        if verdict.effect is not None and math.isfinite(verdict.effect):
            parts.append(element("circle", class_="effect", cx=x.at(verdict.effect), cy=y, r=3.2))
    name = f"{sides[0]} {'/' if ratio else '−'} {sides[1]}"
    parts += _axis(x, bottom, name if len(name) <= 62 else "ratio" if ratio else "difference", height)
    parts.append(element("text", _claimed(claim), class_="label", x=(left + right) / 2, y=12, text_anchor="middle"))
    count = f"{len(dots)} of {len(verdict.points)}" if len(verdict.points) > MOST_SEEDS else len(dots)
    label = (
        f"{count} seeds of {claim.name}: {'ratio' if ratio else 'difference'} per seed, "
        f"effect {effect_text(verdict) or 'unknown'}"
    )
    return picture(Frame(width=WIDTH, height=height), label, *parts)


def _shown(value: float, ratio: bool) -> float:
    """Returns a seed's value as drawn; on the log scale it is stored as the logarithm of the ratio."""
    try:
        return math.exp(value) if ratio else value
    except OverflowError:
        return math.inf


def claimed_range(claim: Claim) -> tuple[float | None, float | None]:
    """Returns the ends of the effect's range if the claim is true; None: without end."""
    low, high = (1 / claim.margin, claim.margin) if claim.scale == "log ratio" else (-claim.margin, claim.margin)
    if claim.direction == "equal":
        return low, high
    upward = claim.direction in ("greater", "not less")
    limit = high if upward != (claim.direction in ABSENCES) else low
    return (limit, None) if upward else (None, limit)


def _claimed(claim: Claim) -> str:
    least, most = claimed_range(claim)
    if most is None:
        return f"claimed: above {number(least, 3)} →"
    if least is None:
        return f"← claimed: below {number(most, 3)}"
    return f"claimed: between {number(least, 3)} and {number(most, 3)}"


def _swarm(positions: list[float]) -> list[int]:
    """Returns, for each dot, the lowest row in which it touches no other dot."""
    rows: list[float] = []  # the position of each row's last dot
    found = [0] * len(positions)
    for index in sorted(range(len(positions)), key=lambda i: (positions[i], i)):
        row = next((r for r, last in enumerate(rows) if positions[index] - last >= 2 * _DOT), len(rows))
        rows[row : row + 1] = [positions[index]]
        found[index] = row
    return found


def _axis(x: Scale, bottom: float, name: str, height: int) -> list[object]:
    parts: list[object] = [element("line", class_="axis", x1=x.start, x2=x.end, y1=bottom, y2=bottom)]
    ticks = x.ticks(5)
    for tick, text in zip(ticks, labels(ticks), strict=True):
        at = x.at(tick)
        parts.append(element("line", class_="axis", x1=at, x2=at, y1=bottom, y2=bottom + 4))
        parts.append(element("text", text, x=at, y=bottom + 15, text_anchor="middle"))
    parts.append(
        element("text", svg_mathematics(name), class_="label", x=WIDTH / 2, y=height - 5, text_anchor="middle")
    )
    return parts
