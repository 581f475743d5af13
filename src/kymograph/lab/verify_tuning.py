"""Checking that every tuned arm was evaluated at the value that its stored tuning runs call for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kymograph.claims.tuned_arms import TunedArm
from kymograph.lab.finding import Finding


def tuning_findings(study: str, tuned: Mapping[str, TunedArm]) -> list[Finding]:
    """Returns a finding for every arm whose choice does not hold, and a note for each that decides nothing."""
    wrong = [one for one in tuned.values() if one.fails_verification]
    found = [Finding(f"the {one.tuned.setting} chosen for {one.arm} in {study}", False, one.problem) for one in wrong]
    if tuned and not wrong:
        chosen = ", ".join(f"{one.arm} {one.tuned.setting} {_value_text(one.value)}" for one in tuned.values())
        found.append(Finding(f"the values chosen for {study}", True, f"the tuning runs call for them: {chosen}"))
    return found + [
        Finding(f"{study}: {one.problem}", True, note=True)
        for one in tuned.values()
        if one.problem and not one.fails_verification
    ]


def _value_text(value: Any) -> str:
    return "none" if value is None else str(value)
