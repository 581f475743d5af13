"""Why a claim has its outcome, in a text short enough for a table."""

from __future__ import annotations

from collections.abc import Sequence

from kymograph.claims.claim import ABSENCES, Claim
from kymograph.claims.decide import Decision, Evidence, seeds_to_decide
from kymograph.claims.verdict import Outcome, p_text

MOST_LISTED = 6
"""The most seeds that a note lists."""


_AIMS = {
    Outcome.SUPPORTED: "support it",
    Outcome.REFUTED: "refute it",
    Outcome.EQUIVALENT: "show that the effect is within the margin",
}
"""What more seeds would do if the true effect is the observed one."""


def reason(claim: Claim, decision: Decision, evidence: Evidence, family: int) -> tuple[str, int | None]:
    """Returns why the claim has its outcome, and the seeds needed to decide it if it is INCONCLUSIVE."""
    if decision.outcome is not Outcome.INCONCLUSIVE:
        return _decided(claim, decision, evidence, family), None
    if not evidence.values.any():
        return "every difference is zero", None
    needed, aim = seeds_to_decide(evidence, claim.alpha, family)
    if needed is None:
        words = "no number of seeds up to 1,000 would decide it"
    else:
        words = f"{needed:,} seeds needed for 80 % power to {_AIMS[aim]}"
    return f"{_open(claim, decision, evidence, family)}; {words}", needed


def failing_note(seeds: Sequence[int], n: int, bound: float) -> str:
    """Returns how many and which seeds are beyond the margin, and the bound on their rate."""
    if len(seeds) == n:
        return f"{n} of {n} seeds fail"
    more = ", ..." if len(seeds) > MOST_LISTED else ""
    listed = f": {', '.join(map(str, seeds[:MOST_LISTED]))}{more}" if seeds else ""
    return f"{len(seeds)} of {n} seeds fail{listed} (rate at most {100 * bound:.0f} %)"


def margin_text(claim: Claim, size: float | None = None) -> str:
    """Returns a margin as effects are printed: a ratio with a multiplication sign."""
    size = claim.margin if size is None else size
    return f"×{size:g}" if claim.scale == "log ratio" else f"{size:g}"


def _decided(claim: Claim, decision: Decision, evidence: Evidence, family: int) -> str:
    margin = margin_text(claim)
    if decision.outcome is Outcome.SUPPORTED:
        within = claim.direction in ABSENCES or claim.direction == "equal"
        return f"{claim.direction} within {margin}" if within else f"beyond the margin of {margin}"
    if decision.outcome is Outcome.REFUTED:
        return _refuted(claim, decision, evidence)
    margin = margin_text(claim, claim.equivalence_margin)
    if decision.exists(claim.alpha):
        return f"the effect is real but smaller than the margin of {margin} ({_p(decision.p_zero)} against zero)"
    small = f"within the margin of {margin} by both tests"
    if evidence.t.zero > claim.alpha:
        return small
    # The interval excludes zero, so a reader expects an effect.
    uncorrected = _uncorrected(float(evidence.both.zero), family)
    return f"{small}; an effect of any size is not shown ({_p(decision.p_zero)} against zero{uncorrected})"


def _refuted(claim: Claim, decision: Decision, evidence: Evidence) -> str:
    """Returns why a claim is refuted: any effect the other way refutes "greater" and "less", however small."""
    if claim.direction not in ("greater", "less"):
        return f"beyond the margin of {margin_text(claim)}"
    words = "the effect goes the other way"
    if decision.p_equivalence <= claim.alpha:
        return f"{words}, though within the margin of {margin_text(claim, claim.equivalence_margin)}"
    if -evidence.values.mean() < evidence.bounds.support:
        return f"{words}, though its estimate is within the margin of {margin_text(claim)}"
    return words


def _open(claim: Claim, decision: Decision, evidence: Evidence, family: int) -> str:
    """Returns why nothing could be decided."""
    if not decision.reachable:
        return f"{len(evidence.values)} seeds cannot reach {claim.alpha:g} in a family of {family}"
    one_sided = claim.direction in ("greater", "less")
    # A claim of absence or equality has one limit, the margin, so its p-value is that of the side the effect is on.
    p = decision.p_margin if one_sided and evidence.values.mean() > 0 else decision.p
    other_way = one_sided and evidence.values.mean() < 0
    against = f"{p_text(p)} {'for the other direction' if other_way else 'against the margin'}"
    # The interval is not corrected: it may lie beyond the limit that the corrected p-value does not exclude.
    uncorrected = _uncorrected(evidence.p, family) if evidence.t.direction <= claim.alpha else ""
    if decision.exists(claim.alpha):
        smaller = one_sided and 0 < evidence.values.mean() < evidence.bounds.support
        how = "but smaller than" if smaller else "but uncertain against"
        numbers = f"{_p(decision.p_zero)} against zero, {against}{uncorrected}"
        if other_way:
            return f"the effect is real and goes the other way, but not surely enough to refute the claim ({numbers})"
        return f"the effect is real {how} the margin of {margin_text(claim)} ({numbers})"
    return f"too uncertain (p = {against}{uncorrected})" if uncorrected else "too uncertain"


def _uncorrected(p: float, family: int) -> str:
    """Returns a p-value before Holm's correction, as a continuation; empty if there was nothing to correct."""
    return f", {p_text(p)} before correction for {family} claims" if family > 1 else ""


def _p(p: float) -> str:
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"
