"""A claim on the page: its row, every seed on a dot plot, the numbers, and the order of claims."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from kymograph._claims.claim import ABSENCES, Claim, Side, side_names, side_text
from kymograph._claims.decision import margin_text
from kymograph._claims.estimands import natural
from kymograph._claims.verdict import (
    Outcome,
    Point,
    Verdict,
    deciding_limits,
    decisive_p,
    effect_text,
    p_text,
    settings_text,
)
from kymograph._pictures.report_page.charts import table_data
from kymograph._pictures.report_page.forest import forest_row, in_margins
from kymograph._pictures.report_page.svg import Frame, Scale, element, labels, number, picture, scale_over
from kymograph._pictures.scales import margin_ends, no_effect
from kymograph._pictures.styles import svg_mathematics
from kymograph._rounding import digits_needed, number_text
from kymograph._runs.declaration import Declaration
from kymograph._runs.spec import slug

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
    none, limits = no_effect(claim), margin_ends(claim)
    dots = [(point, natural(claim, point.value)) for point in sampled_by_rank(verdict.points)]
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


def claimed_range(claim: Claim) -> tuple[float | None, float | None]:
    """Returns the ends of the effect's range if the claim is true; None: without end."""
    low, high = margin_ends(claim)
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
    row_of = [0] * len(positions)
    for index in sorted(range(len(positions)), key=lambda i: (positions[i], i)):
        row = next((r for r, last in enumerate(rows) if positions[index] - last >= 2 * _DOT), len(rows))
        rows[row : row + 1] = [positions[index]]
        row_of[index] = row
    return row_of


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


@dataclass(frozen=True)
class ClaimView:
    """One row of the verdict table, and the evidence that unfolds below it."""

    id: str
    verdict: Verdict
    effect: str
    p: str
    forest: Markup
    """The row of the forest plot."""
    picture: Markup
    text: str
    """The claim as stated, its margin written like the effects."""
    comparison: str
    """What is compared, in words."""
    sides: tuple[str, ...]
    """The names of the compared sides."""
    settings: str
    """The set-up, and the settings that the claim's name does not state."""
    numbers: tuple[tuple[str, str], ...]
    rows: tuple[tuple[str, ...], ...]
    """Every seed's numbers as text."""
    columns: tuple[str, ...]
    data: dict[str, Any]
    order: str
    """The effect in margins, for sorting the rows; empty if there is none."""
    twin: bool = False
    """Whether the row above is the same claim in another set-up."""
    left_out: int = 0
    """How many further seeds are neither drawn nor listed."""


def claim_view(verdict: Verdict, declaration: Declaration) -> ClaimView:
    """Returns a verdict as the page shows it; the id depends only on the claim, so it is the same on every page."""
    claim = verdict.claim
    ratio = claim.scale == "log ratio"
    names = side_names(claim, declaration)
    if claim.interaction is None:
        sides, parts = names, names[:0]
    else:
        sides, parts = (f"{names[0]} against {names[1]}", f"{names[2]} against {names[3]}"), names
    columns = ("seed", *parts, *sides, "log ratio" if ratio else "difference")
    shown = sampled_by_rank(verdict.points)
    table = [(point.seed, *point.parts, point.left, point.right, point.value) for point in shown]
    rows = tuple((str(seed), *(number(value, 5) for value in values)) for seed, *values in table)
    data = table_data(("claim", "setup", *columns), [(claim.name, verdict.setup, *row) for row in table])
    position = None if verdict.effect is None else in_margins(claim, verdict.effect)
    return ClaimView(
        id=f"claim-{slug(claim.study)}-{claim.hash[:10]}",
        verdict=verdict,
        effect=effect_text(verdict, typeset=True) or "–",
        p=decisive_p(verdict) or "–",
        forest=forest_row(verdict),
        picture=dot_plot(verdict, sides),
        text=claim.text.replace(f"x{claim.margin:g}", margin_text(claim)) if ratio else claim.text,
        comparison=comparison_text(claim, declaration),
        sides=sides,
        settings=settings_text(verdict),
        numbers=_numbers(verdict, sides),
        rows=rows,
        columns=columns,
        data=data,
        order="" if position is None or math.isnan(position) else f"{position:.6g}",
        left_out=len(verdict.points) - len(shown),
    )


def comparison_text(claim: Claim, declaration: Declaration) -> str:
    """Returns the comparison in words: what is compared, in which direction and by how much."""
    left = side_text(claim.left, declaration)
    right = side_text(claim.right, declaration) if isinstance(claim.right, Side) else number(claim.right)
    if claim.interaction is not None:
        operation = "over" if claim.scale == "log ratio" else "minus"
        left = f"{left} {operation} {right}"
        right = f" {operation} ".join(side_text(side, declaration) for side in claim.interaction)
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


def _numbers(verdict: Verdict, sides: Sequence[str]) -> tuple[tuple[str, str], ...]:
    claim = verdict.claim
    ratio = claim.scale == "log ratio"
    sign, gain = "×" if ratio else "", verdict.pairing_gain

    limits = deciding_limits(claim)
    both = digits_needed([verdict.effect, *(verdict.interval or ())], limits) if verdict.effect is not None else 3

    def interval(ends: tuple[float, float] | None) -> str:
        if ends is None:
            return "–"
        digits = both if ends == verdict.interval else digits_needed(ends, limits)
        return f"[{', '.join(number_text(end, digits, typeset=True, zeros=True) for end in ends)}]"

    effect = "effect (ratio of geometric means)" if ratio else "effect (mean difference)"
    entries = [
        (effect, number_text(verdict.effect, both, typeset=True)),
        ("95 % interval, Student t", interval(verdict.interval)),
        (f"{equivalence_level(verdict)} interval, for equivalence", interval(verdict.equivalence_interval)),
        ("95 % interval, BCa bootstrap", interval(verdict.bca)),
        ("p, corrected (Holm)", _p(verdict.p)),
        ("p, paired t test", _p(verdict.p_t)),
        ("p, exact sign-flip test", _p(verdict.p_flip)),
        ("p against zero, corrected", _p(verdict.p_zero)),
        # A claim of absence or equality is tested against the margin only, by the p-value above.
        ("p against the margin, corrected", _p(verdict.p_margin if claim.direction in ("greater", "less") else None)),
        ("p, equivalence, corrected", _p(verdict.p_equivalence)),
        ("p, equivalence, t (TOST)", _p(verdict.tost_p)),
        ("p, equivalence, sign flips", _p(verdict.tost_flip_p)),
        ("Hedges g", number(verdict.hedges_g, 3)),
    ]
    if verdict.superiority is not None:
        chance, low, high = (number(share, 3) for share in verdict.superiority)
        entries.append((f"probability that {sides[0]} exceeds {sides[1]}", f"{chance} [{low}, {high}]"))
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
        entries.append(("claims in the family (Holm)", str(verdict.family_size)))
    entries.append(("seeds judged", str(verdict.n)))
    if verdict.seeds_needed is not None:
        entries.append(("seeds needed for 80 % power", f"{verdict.seeds_needed:,}"))
    return tuple((name, text) for name, text in entries if text != "–")


def _p(p: float | None) -> str:
    return p_text(p) or "–"


RANK = {outcome: rank for rank, outcome in enumerate(
    (Outcome.REFUTED, Outcome.SUPPORTED, Outcome.EQUIVALENT, Outcome.INCONCLUSIVE, Outcome.INVALID))}  # fmt: skip


def ordered(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Returns the verdicts in page order: groups of twins, sorted by the gravest outcome in the group.

    Each group is sorted by outcome too, ties by first appearance. Manipulation checks are not findings and come last.
    """
    groups: dict[Hashable, list[Verdict]] = {}
    twins = _twins(verdicts)
    for verdict in verdicts:
        groups.setdefault((verdict.claim.kind, twins[id(verdict)]), []).append(verdict)

    def rank_of_group(group: list[Verdict]) -> tuple[bool, int]:
        return group[0].claim.kind is not None, min(RANK[verdict.outcome] for verdict in group)

    return [
        sorted(group, key=lambda verdict: RANK[verdict.outcome]) for group in sorted(groups.values(), key=rank_of_group)
    ]


def _twins(verdicts: Sequence[Verdict]) -> dict[int, Hashable]:
    """Returns, by verdict, the key that it shares with its twins: the study, and the claim's name or else its origin.

    Twins have different set-ups.
    """
    setups: dict[Hashable, set[str]] = {}
    for verdict in verdicts:
        for key in _keys(verdict):
            setups.setdefault(key, set()).add(verdict.claim.setup)
    return {
        id(verdict): next((key for key in _keys(verdict) if len(setups[key]) > 1), id(verdict)) for verdict in verdicts
    }


def _keys(verdict: Verdict) -> list[Hashable]:
    claim = verdict.claim
    if claim.setup == "own":
        return []
    return [(claim.study, "name", claim.name), (claim.study, "origin", claim.origin)]
