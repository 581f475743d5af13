"""Published values next to those of stored runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kymograph.runs.bounds import bounds_of
from kymograph.runs.headlines import HeadlineNumber, headline_number
from kymograph.runs.stored import StoredRun


@dataclass(frozen=True)
class PublishedValue:
    """A number that a paper reports for runs with given settings."""

    arm: str
    number: str
    """The key of the same number in a run's summary."""
    label: str
    published: str
    """As printed in the paper."""
    low: float
    high: float
    """The range that the published value allows: over seeds, or by rounding."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings of the paper's runs that differ from our defaults."""
    remark: str = ""
    """Why ours differs, if it does, or that the reason is unknown."""


@dataclass(frozen=True)
class PublishedComparison:
    """A published value and ours."""

    value: PublishedValue
    ours: HeadlineNumber

    @property
    def agrees(self) -> bool:
        """Whether the range of our seeds and the published one overlap."""
        known = [one for one in self.ours.values if one is not None]
        return bool(known) and min(known) <= self.value.high and max(known) >= self.value.low


def compare(published: Sequence[PublishedValue], runs: Sequence[StoredRun]) -> list[PublishedComparison]:
    """Returns every published value whose arm, settings and number occur in ``runs``, with ours over seeds.

    Args:
        published: the values that one source reports for a study.
        runs: finished runs of that study.
    """
    found = []
    for value in published:
        same = [run for run in runs if run.arm == value.arm and _has(run.config, value.settings)]
        if any(value.number in run.summary for run in same):
            ours = [run.summary.get(value.number) for run in same]
            found.append(PublishedComparison(value, headline_number(ours, bounds=bounds_of(value.number, ours))))
    return found


def _has(config: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    return all(config.get(name) == value for name, value in settings.items())
