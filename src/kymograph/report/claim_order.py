"""The order of claims on the page: refuted ones first, and a script's claim next to its repaired twin."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kymograph.claims.verdict import Outcome, Verdict

RANK = {outcome: rank for rank, outcome in enumerate(
    (Outcome.REFUTED, Outcome.SUPPORTED, Outcome.EQUIVALENT, Outcome.INCONCLUSIVE, Outcome.INVALID))}  # fmt: skip


def ordered(verdicts: Sequence[Verdict]) -> list[list[Verdict]]:
    """Returns the verdicts in page order: groups of twins, sorted by the gravest outcome in the group.

    Each group is sorted by outcome too, and on ties the script's claim precedes its repaired twin. Manipulation checks
    are not findings and come last.
    """
    groups: dict[Hashable, list[Verdict]] = {}
    twins = _twins(verdicts)
    for verdict in verdicts:
        groups.setdefault((verdict.claim.kind, twins[id(verdict)]), []).append(verdict)

    def rank_of_group(group: list[Verdict]) -> tuple[bool, int]:
        return group[0].claim.kind is not None, min(RANK[verdict.outcome] for verdict in group)

    def rank_in_group(verdict: Verdict) -> tuple[int, int]:
        return RANK[verdict.outcome], {"script": 0, "repaired": 1}.get(verdict.claim.setup, 2)

    return [sorted(group, key=rank_in_group) for group in sorted(groups.values(), key=rank_of_group)]


def _twins(verdicts: Sequence[Verdict]) -> dict[int, Hashable]:
    """Returns, by verdict, the key that it shares with its twin: the study, and the claim's name or else its origin."""
    setups: dict[Hashable, set[str]] = {}
    for verdict in verdicts:
        for key in _keys(verdict):
            setups.setdefault(key, set()).add(verdict.claim.setup)
    return {
        id(verdict): next((key for key in _keys(verdict) if {"script", "repaired"} <= setups[key]), id(verdict))
        for verdict in verdicts
    }


def _keys(verdict: Verdict) -> list[Hashable]:
    claim = verdict.claim
    if claim.setup == "own":
        return []
    return [(claim.study, "name", claim.name), (claim.study, "origin", claim.origin)]
