"""The power of claims by the number of seeds, before anything is run: simulated, with both tests.

Paired differences are assumed to be normal. A claim is tested as if no other claim in its family could be decided: at
alpha over the size of the family, the first step of Holm's correction. Claims that are decided along with others have
more power than is printed here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kymograph._claims import registration
from kymograph._claims.claim import Claim
from kymograph._claims.decision import (
    Bounds,
    Decided,
    can_decide,
    decided,
    direction_sign,
    margin_text,
    outcome_bounds,
    p_values,
    size_on_scale,
)
from kymograph._claims.design import Design
from kymograph._errors import UsageError
from kymograph._rounding import estimate_text, number_text
from kymograph._statistics.p_values import LEAST_SEEDS, Alternative
from kymograph._statistics.power import WORLDS, normal_samples
from kymograph._studies.loading import registered_study

SEEDS = (6, 8, 10, 15, 20, 30)
MOST_SEEDS = 5000
"""Two thousand samples of as many numbers take a few hundred megabytes."""
STANDARD_EFFECTS = (0.5, 0.8, 1.0, 1.5, 2.0)
"""In standard deviations of the paired differences."""


@dataclass(frozen=True)
class PowerTable:
    """Power by the number of seeds: one row per n, one column per true effect."""

    family: str
    """The study and the level that its claims share."""
    question: str
    """What the cells are, as the beginning of a sentence that each column's effect ends."""
    claims: tuple[str, ...]
    columns: tuple[str, ...]
    rows: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """In percent; a single cell says why so few seeds cannot decide."""


_Row = Callable[[int], tuple[str, ...]]
"""Computes the cells of a table for n seeds."""


def outcome_rates(bounds: Bounds, effect: float, sd: float, n: int, alpha: float, family: int) -> Decided:
    """Returns how often n seeds support, refute or call equivalent a claim whose true effect is ``effect``.

    ``effect`` and ``sd`` are those of the paired differences (or log-ratios); a positive effect favours the claim.
    """
    samples = normal_samples(n)
    p = p_values(bounds, lambda against, alternative: samples.p((against - effect) / sd, alternative))
    return Decided(*(float(mask.mean()) for mask in decided(p, p.direction, p.equivalence, alpha / family)))


def family_sizes(claims: Sequence[Claim]) -> dict[str, int]:
    """Returns how many claims share the level in each family, including the other claims of a registered study."""
    members: dict[str, set[str]] = {claim.family: set() for claim in claims}
    studies = [registered_study(name) for name in dict.fromkeys(claim.study for claim in claims)]
    for claim in [*claims, *(claim for study in studies if study is not None for claim in study.claims())]:
        if claim.family in members:
            members[claim.family].add(registration.key(claim))
    return {family: len(keys) for family, keys in members.items()}


def power_tables(
    claims: Sequence[Claim],
    effects: Sequence[float] = (),
    sd: float | None = None,
    family: int | None = None,
    seeds: Sequence[int] = SEEDS,
) -> list[PowerTable]:
    """Returns tables of power: one per kind of decision and family, or, with ``sd``, one per claim.

    Args:
        claims: the claims.
        effects: true effects. Without ``sd``: how far they lie beyond what must be ruled out, in standard deviations of
            the paired differences. With it: in the measure's own units, or as a ratio left / right on the log scale.
        sd: standard deviation of the paired differences, or of the log-ratios.
        family: how many claims share the level; default: those given, with the study's own.
        seeds: the numbers of seeds.
    """
    if sd is not None and not (math.isfinite(sd) and sd > 0):
        raise UsageError(f"a standard deviation must be a number above 0, not {sd:g}")
    for n in seeds:
        if n < LEAST_SEEDS:
            raise UsageError(f"claims need at least {LEAST_SEEDS} seeds, not {n}")
    _check_most(max(seeds, default=0))
    sizes = family_sizes(claims) if family is None else {claim.family: family for claim in claims}
    if sd is not None:
        questions = [_measured(claim, effects, sd, sizes[claim.family]) for claim in claims]
    else:
        groups: dict[tuple[str, float, bool], list[Claim]] = {}
        for claim in claims:
            groups.setdefault((claim.family, claim.alpha, claim.direction == "equal"), []).append(claim)
        questions = [
            question
            for (name, _, _), members in groups.items()
            for question in _standardised(members, sizes[name], effects or STANDARD_EFFECTS)
        ]
    # Seeds are the outer loop, because all questions about n seeds share their simulated samples.
    rows = [[(n, row(n)) for _, row in questions] for n in seeds]
    return [replace(table, rows=tuple(cells)) for (table, _), *cells in zip(questions, *rows, strict=True)]


def _check_most(n: int) -> None:
    if n > MOST_SEEDS:
        raise UsageError(f"power is simulated for at most {MOST_SEEDS:,} seeds, not {n:,}")


def _standardised(claims: Sequence[Claim], family: int, effects: Sequence[float]) -> Iterator[tuple[PowerTable, _Row]]:
    """Yields tables of power by effects in standard deviations: for a direction (or "equal"), then for equivalence.

    The claims share a family and an alpha, and either all or none of them are about equality.
    """
    for effect in effects:
        if not effect > 0:
            raise UsageError(f"without --sd an effect is a number of standard deviations above 0, not {effect:g}")
    alpha, columns = claims[0].alpha, tuple(f"{effect:g} sd" for effect in effects)
    where = _family_text(claims[0], family)

    def power_of(outcome: str, bounds: Callable[[float], Bounds], moved: bool) -> _Row:
        def row(n: int) -> tuple[str, ...]:
            if not can_decide(n, family, alpha, "greater" if outcome == "equivalent" else "two-sided"):
                return (_too_few(n, family, alpha),)
            rates = [
                outcome_rates(bounds(effect), effect if moved else 0.0, 1.0, n, alpha, family) for effect in effects
            ]
            return tuple(_percent(getattr(rate, outcome)) for rate in rates)

        return row

    if claims[0].direction == "equal":
        asked = "chance of SUPPORTED, in percent, if there is no difference and the margin is"
        within = power_of("supported", lambda margin: Bounds(margin, margin, 0.0, equal=True), moved=False)
        yield PowerTable(where, asked, _claim_lines(claims), columns), within
        return
    asked = "chance of SUPPORTED, in percent, if the effect is beyond the margin by"
    beyond = power_of("supported", lambda _: Bounds(0.0, -math.inf, 0.0), moved=True)
    yield PowerTable(where, asked, _claim_lines(claims), columns), beyond
    bounded = [claim for claim in claims if outcome_bounds(claim).equivalence > 0]
    if bounded:
        asked = "chance of EQUIVALENT, in percent, if there is no effect and the equivalence margin is"
        within = power_of("equivalent", lambda margin: Bounds(math.inf, -math.inf, margin), moved=False)
        yield PowerTable(where, asked, _claim_lines(bounded), columns), within


def _measured(claim: Claim, effects: Sequence[float], sd: float, family: int) -> tuple[PowerTable, _Row]:
    """Returns a table of how often each outcome occurs, by true effects in the measure's own units."""
    bounds, ratio, sign = outcome_bounds(claim), claim.scale == "log ratio", direction_sign(claim)
    if ratio and any(effect <= 0 for effect in effects):
        raise UsageError(f"{claim.name}: an effect on the log scale is a ratio above 0")
    if effects:
        oriented = [sign * size_on_scale(claim, effect) for effect in effects]
    else:
        unit = size_on_scale(claim, claim.margin) or sd
        oriented = [factor * unit for factor in (0.0, 1.0, 1.5, 2.0)]

    tails: tuple[Alternative, ...] = ("two-sided", "greater") if bounds.equivalence > 0 else ("two-sided",)

    def row(n: int) -> tuple[str, ...]:
        if not any(can_decide(n, family, claim.alpha, tail) for tail in tails):
            return (_too_few(n, family, claim.alpha),)
        rates = [outcome_rates(bounds, value, sd, n, claim.alpha, family) for value in oriented]
        return tuple(f"{_percent(r.supported)}/{_percent(r.equivalent)}/{_percent(r.refuted)}" for r in rates)

    asked = "chance of SUPPORTED/EQUIVALENT/REFUTED, in percent, if the effect is"
    natural = [math.exp(sign * value) if ratio else sign * value for value in oriented]
    columns = tuple(f"×{number_text(value)}" if ratio else estimate_text(value, signed=True) for value in natural)
    return PowerTable(f"{_family_text(claim, family)}, sd {sd:g}", asked, _claim_lines([claim]), columns), row


def sequential_power(design: Design, effect: float, alpha: float) -> tuple[float, float]:
    """Returns the power of a sequential design at ``effect`` standard deviations, and the mean number of seeds.

    ``alpha`` is what one claim may spend, two-sided, over all looks; seeds are added until a look decides.
    """
    undecided = np.ones(WORLDS, dtype=bool)
    seeds = np.zeros(WORLDS)
    for look in design.looks:
        seeds[undecided] = look.seeds
        undecided &= 2 * normal_samples(look.seeds).p(-effect, "greater") > alpha * look.share
    return float(1 - undecided.mean()), float(seeds.mean())


def price_of_looks(
    design: Design, claims: Sequence[Claim], effects: Sequence[float] = (1.0,), family: int | None = None
) -> str:
    """Returns, a line per effect, the power of a sequential design next to that of its last look alone."""
    _check_most(design.sizes[-1])
    family = family or max(family_sizes(claims).values())
    alpha = min(claim.alpha for claim in claims) / family
    lines = []
    for effect in effects:
        power, seeds = sequential_power(design, effect, alpha)
        alone, _ = sequential_power(Design(design.sizes[-1:]), effect, alpha)
        lines.append(
            f"power at {effect:g} sd beyond the margin, in a family of {family}: {_percent(power)} % with "
            f"{seeds:.1f} seeds on average; {_percent(alone)} % with all {design.sizes[-1]} seeds and one look"
        )
    return "\n".join(lines)


def monte_carlo_error() -> float:
    """Returns the largest half-width of the 95 % interval of a simulated rate."""
    return float(np.sqrt(0.25 / WORLDS) * 2)


def _family_text(claim: Claim, size: int) -> str:
    return f"{claim.family}: family of {size} at {claim.alpha:g}"


def _too_few(n: int, family: int, alpha: float) -> str:
    return f"{n} seeds cannot reach {alpha:g} in a family of {family}"


def _claim_lines(claims: Sequence[Claim]) -> tuple[str, ...]:
    return tuple(f"{claim.name} ({claim.setup}; {claim.direction}, margin {margin_text(claim)})" for claim in claims)


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f}"
