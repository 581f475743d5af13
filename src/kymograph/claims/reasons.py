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
        return _decided(claim, decision), None
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
    """Returns a margin as claims state it: a ratio with an x."""
    size = claim.margin if size is None else size
    return f"x{size:g}" if claim.scale == "log ratio" else f"{size:g}"


def _decided(claim: Claim, decision: Decision) -> str:
    margin = margin_text(claim)
    if decision.outcome is Outcome.SUPPORTED:
        within = claim.direction in ABSENCES or claim.direction == "equal"
        return f"{claim.direction} within {margin}" if within else f"beyond the margin of {margin}"
    if decision.outcome is Outcome.REFUTED:
        other_way = claim.direction in ("greater", "less")
        return "the effect goes the other way" if other_way else f"beyond the margin of {margin}"
    margin = margin_text(claim, claim.equivalence_margin)
    if decision.exists(claim.alpha):
        return f"the effect is real but smaller than the margin of {margin} ({_p(decision.p_zero)} against zero)"
    return f"within the margin of {margin} by both tests"


def _open(claim: Claim, decision: Decision, evidence: Evidence, family: int) -> str:
    """Returns why nothing could be decided."""
    if not decision.reachable:
        return f"{len(evidence.values)} seeds cannot reach {claim.alpha:g} in a family of {family}"
    if decision.exists(claim.alpha):
        p = f"{_p(decision.p_zero)} against zero, {p_text(decision.p_margin)} against the margin"
        smaller = claim.direction in ("greater", "less") and 0 < evidence.values.mean() < evidence.bounds.support
        how = "but smaller than" if smaller else "but uncertain against"
        return f"the effect is real {how} the margin of {margin_text(claim)} ({p})"
    return "too uncertain"


def _p(p: float) -> str:
    text = p_text(p)
    return f"p {text}" if text.startswith("<") else f"p = {text}"
