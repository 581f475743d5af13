"""A claim on the page: its verdict, every seed on a dot plot with intervals, margin and zero, and the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from kymograph.claims.claim import ABSENCES, Claim, Quantity
from kymograph.claims.verdict import Point, Verdict, decisive_p, effect_text, p_text, telling_digits
from kymograph.report.chart import table_data
from kymograph.report.svg import Frame, Scale, element, labels, number, picture, scale_over

WIDTH = 360
_DOT = 4.0
MOST_SEEDS = 200
"""The most seeds of a claim that are drawn and listed."""


@dataclass(frozen=True)
class ClaimView:
    """One row of the verdict table, and the evidence that unfolds below it."""

    id: str
    verdict: Verdict
    effect: str
    p: str
    picture: Markup
    comparison: str
    """The claim as a formula in words."""
    numbers: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]
    """Every seed's numbers as text."""
    columns: tuple[str, ...]
    data: dict[str, Any]
    left_out: int = 0
    """How many further seeds are neither drawn nor listed."""


def claim_view(index: int, verdict: Verdict) -> ClaimView:
    """Returns what the page shows of the verdict in row ``index`` of the table."""
    claim = verdict.claim
    ratio = claim.scale == "log ratio"
    parts = ("a", "b", "c", "d") if claim.interaction is not None else ()
    columns = ("seed", *parts, "left", "right", "log ratio" if ratio else "difference")
    shown = _spread_out(verdict.points)
    table = [(point.seed, *point.parts, point.left, point.right, point.value) for point in shown]
    rows = tuple((str(seed), *(number(value, 5) for value in values)) for seed, *values in table)
    data = table_data(("claim", "setup", *columns), [(claim.name, verdict.setup, *row) for row in table])
    return ClaimView(
        id=f"claim-{index}",
        verdict=verdict,
        effect=effect_text(verdict).replace("-", "−") or "–",
        p=decisive_p(verdict) or "–",
        picture=dot_plot(verdict),
        comparison=comparison_text(claim),
        numbers=_numbers(verdict),
        rows=rows,
        columns=columns,
        data=data,
        left_out=len(verdict.points) - len(shown),
    )


def _spread_out(points: Sequence[Point]) -> Sequence[Point]:
    """Returns at most `MOST_SEEDS` points, evenly from the smallest to the largest, so that they show all of them."""
    if len(points) <= MOST_SEEDS:
        return points
    order = sorted(range(len(points)), key=lambda index: points[index].value)
    step = (len(points) - 1) / (MOST_SEEDS - 1)
    kept = {order[round(place * step)] for place in range(MOST_SEEDS)}
    return [point for index, point in enumerate(points) if index in kept]


def comparison_text(claim: Claim) -> str:
    """Returns what is compared, in which direction and by how much."""
    left, right = str(claim.left), str(claim.right) if isinstance(claim.right, Quantity) else number(claim.right)
    if claim.interaction is not None:
        operation = "over" if claim.scale == "log ratio" else "minus"
        left = f"{left} {operation} {right}"
        right = f"{claim.interaction[0]} {operation} {claim.interaction[1]}"
    unit = "a factor of " if claim.scale == "log ratio" else ""
    margin = f"{unit}{number(claim.margin)}"
    relations = {
        "greater": f"greater than {right} by more than {margin}",
        "less": f"less than {right} by more than {margin}",
        "not less": f"not less than {right} by {margin} or more",
        "not greater": f"not greater than {right} by {margin} or more",
        "equal": f"equal to {right} within {margin}",
    }
    return f"{left} is {relations[claim.direction]}"


def _numbers(verdict: Verdict) -> tuple[tuple[str, str], ...]:
    claim = verdict.claim
    ratio = claim.scale == "log ratio"
    sign, gain = "×" if ratio else "", verdict.pairing_gain

    def telling(value: float | None) -> str:
        return number(value) if value is None else number(value, telling_digits(claim, value, least=4))

    def interval(ends: tuple[float, float] | None) -> str:
        return "–" if ends is None else f"[{telling(ends[0])}, {telling(ends[1])}]"

    entries = [
        ("effect (ratio of geometric means)" if ratio else "effect (mean difference)", telling(verdict.effect)),
        ("95 % interval, Student t", interval(verdict.interval)),
        (f"{_equivalence_level(claim)} interval, for equivalence", interval(verdict.equivalence_interval)),
        ("95 % interval, BCa bootstrap", interval(verdict.bca)),
        ("p, corrected (Holm)", _p(verdict.p)),
        ("p, paired t test", _p(verdict.p_t)),
        ("p, exact sign-flip test", _p(verdict.p_flip)),
        ("p against zero, corrected", _p(verdict.p_zero)),
        ("p against the margin, corrected", _p(verdict.p_margin)),
        ("p, equivalence, corrected", _p(verdict.p_equivalence)),
        ("p, equivalence, t (TOST)", _p(verdict.tost_p)),
        ("p, equivalence, sign flips", _p(verdict.tost_flip_p)),
        ("Hedges g", number(verdict.hedges_g, 3)),
    ]
    if verdict.superiority is not None:
        chance, low, high = verdict.superiority
        entries.append(
            ("probability that left exceeds right", f"{number(chance, 3)} [{number(low, 3)}, {number(high, 3)}]")
        )
    entries += [
        ("probability of improvement, unpaired", number(verdict.improvement, 3)),
        ("interquartile mean", "–" if verdict.iqm is None else sign + number(verdict.iqm)),
        ("interval without pairing", "–" if gain is None else f"{number(gain, 3)}× as wide"),
    ]
    if verdict.failing_seeds is not None and verdict.failing_rate_bound is not None:
        entries.append(("failing seeds", ", ".join(map(str, verdict.failing_seeds)) or "none"))
        entries.append(("rate of failing seeds, at most", number(verdict.failing_rate_bound, 3)))
    entries.append(("margin", sign + number(claim.margin)))
    if claim.equivalence_margin is not None:
        entries.append(("equivalence margin", sign + number(claim.equivalence_margin)))
    entries.append(("level α", number(claim.alpha)))
    if verdict.family_size is not None:
        entries.append(("claims that share the level", str(verdict.family_size)))
    entries.append(("seeds judged", str(verdict.n)))
    if verdict.seeds_needed is not None:
        entries.append(("seeds needed for 80 % power", f"{verdict.seeds_needed:,}"))
    return tuple((name, text) for name, text in entries if text != "–")


def _p(p: float | None) -> str:
    return p_text(p) or "–"


def _equivalence_level(claim: Claim) -> str:
    return f"{100 * (1 - 2 * claim.alpha):g} %"


def dot_plot(verdict: Verdict) -> Markup:
    """Returns the picture: one dot per seed, the intervals below, the margin shaded, a line at no effect."""
    claim = verdict.claim
    ratio = claim.scale == "log ratio"
    none = 1.0 if ratio else 0.0
    limits = (1 / claim.margin, claim.margin) if ratio else (-claim.margin, claim.margin)
    dots = [(point, _shown(point.value, ratio)) for point in _spread_out(verdict.points)]
    dots = [(point, value) for point, value in dots if math.isfinite(value) and (value > 0 or not ratio)]
    intervals = [
        ("95 % t", verdict.interval),
        (f"{_equivalence_level(claim)} t", verdict.equivalence_interval),
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
    parts: list[object] = []
    if limits[1] > limits[0]:
        low, high = x.at(limits[0]), x.at(limits[1])
        parts.append(element("rect", class_="margin", x=low, y=top, width=high - low, height=bottom - top))
        parts += [element("line", class_="limit", x1=at, x2=at, y1=top, y2=bottom) for at in (low, high)]
    parts.append(element("line", class_="none", x1=x.at(none), x2=x.at(none), y1=top, y2=bottom))
    for (point, value), at, row in zip(dots, (x.at(v) for _, v in dots), rows, strict=True):
        tip = (
            f"seed {point.seed}: {number(point.left)} against {number(point.right)}, "
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
    parts += _axis(x, bottom, "ratio, left / right" if ratio else "difference, left − right", height)
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


def _claimed(claim: Claim) -> str:
    ratio = claim.scale == "log ratio"
    low, high = (1 / claim.margin, claim.margin) if ratio else (-claim.margin, claim.margin)
    if claim.direction == "equal":
        return f"claimed: between {number(low, 3)} and {number(high, 3)}"
    upward = claim.direction in ("greater", "not less")
    value = high if upward != (claim.direction in ABSENCES) else low
    text = f"claimed: {'above' if upward else 'below'} {number(value, 3)}"
    return f"{text} →" if upward else f"← {text}"


def _swarm(positions: list[float]) -> list[int]:
    """Returns for each dot the lowest row in which it touches no other."""
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
    parts.append(element("text", name, class_="label", x=(x.start + x.end) / 2, y=height - 5, text_anchor="middle"))
    return parts
