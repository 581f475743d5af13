"""A claim on the page: its row of the forest plot, every seed on a dot plot, and the numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from kymograph.claims.claim import Claim, Quantity
from kymograph.claims.display_names import quantity_text, side_names
from kymograph.claims.reasons import margin_text
from kymograph.claims.verdict import Verdict, deciding_limits, decisive_p, effect_text, p_text, settings_text
from kymograph.report.chart import table_data
from kymograph.report.dot_plot import dot_plot, equivalence_level, sampled_by_rank
from kymograph.report.forest import forest_row, in_margins
from kymograph.report.svg import number
from kymograph.rounding import digits_needed, number_text
from kymograph.runs.declaration import Declaration
from kymograph.runs.spec import slug


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
    left = quantity_text(claim.left, declaration)
    right = quantity_text(claim.right, declaration) if isinstance(claim.right, Quantity) else number(claim.right)
    if claim.interaction is not None:
        operation = "over" if claim.scale == "log ratio" else "minus"
        left = f"{left} {operation} {right}"
        right = f" {operation} ".join(quantity_text(one, declaration) for one in claim.interaction)
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

    entries = [
        (
            "effect (ratio of geometric means)" if ratio else "effect (mean difference)",
            number_text(verdict.effect, both, typeset=True),
        ),
        ("95 % interval, Student t", interval(verdict.interval)),
        *(
            [(f"{equivalence_level(verdict)} interval, for equivalence", interval(verdict.equivalence_interval))]
            if verdict.equivalence_interval
            else []
        ),
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
        chance, low, high = verdict.superiority
        entries.append(
            (
                f"probability that {sides[0]} exceeds {sides[1]}",
                f"{number(chance, 3)} [{number(low, 3)}, {number(high, 3)}]",
            )
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
        entries.append(("claims in the family (Holm)", str(verdict.family_size)))
    entries.append(("seeds judged", str(verdict.n)))
    if verdict.seeds_needed is not None:
        entries.append(("seeds needed for 80 % power", f"{verdict.seeds_needed:,}"))
    return tuple((name, text) for name, text in entries if text != "–")


def _p(p: float | None) -> str:
    return p_text(p) or "–"
