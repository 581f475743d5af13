"""Published values next to those of stored runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
    settings: Mapping[str, Any]
    """Those of our runs that say what is compared."""

    @property
    def agrees(self) -> bool:
        """Whether our 95 % interval and the range of our seeds both overlap the published range.

        The interval of few seeds overlaps with almost anything, and so does the range of many. Never if a seed has no
        value, e.g. because an alarm was not raised.
        """
        if not self.ours.n or self.ours.missing:
            return False
        (least, most), (low, high) = self.ours.range, self.ours.interval
        if self.ours.n > 1:
            least, most = max(least, low), min(most, high)
        return least <= self.value.high and most >= self.value.low


def compare(
    published: Sequence[PublishedValue], runs: Sequence[StoredRun], qualifying: Collection[str] = ()
) -> list[PublishedComparison]:
    """Returns every published value whose arm, settings and number occur in ``runs``, with ours over seeds.

    Args:
        published: the values that one source reports for a study.
        runs: finished runs of that study.
        qualifying: further settings to show, where all runs agree in them.
    """
    found = []
    for value in published:
        same = [run for run in runs if run.arm == value.arm and _has(run.config, value.settings)]
        if any(value.number in run.summary for run in same):
            ours = [run.summary.get(value.number) for run in same]
            ours_over_seeds = headline_number(ours, bounds=bounds_of(value.number, ours))
            found.append(PublishedComparison(value, ours_over_seeds, dict(value.settings) | _common(same, qualifying)))
    return found


def _common(runs: Sequence[StoredRun], names: Collection[str]) -> dict[str, Any]:
    """Returns those of the named settings in which all runs agree."""
    first = runs[0].config
    return {
        name: first[name]
        for name in names
        if all(name in run.config and run.config[name] == first[name] for run in runs)
    }


def _has(config: Mapping[str, Any], settings: Mapping[str, Any]) -> bool:
    return all(config.get(name) == value for name, value in settings.items())
