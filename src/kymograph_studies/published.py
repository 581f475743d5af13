"""Values that papers report for runs of our studies, and how ours compare with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from kymograph import StoredRun
from kymograph._runs.declaration import bounds_of
from kymograph._runs.summaries import HeadlineNumber, headline_number


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


@runtime_checkable
class WithPublished(Protocol):
    """A study for whose runs papers report values."""

    @property
    def published(self) -> Mapping[str, Sequence[PublishedValue]]:
        """The values by source; an attribute of the study's class."""


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
    compared = []
    for value in published:
        same = [
            run
            for run in runs
            if run.arm == value.arm and all(run.config.get(name) == of for name, of in value.settings.items())
        ]
        if any(value.number in run.summary for run in same):
            numbers = [run.summary.get(value.number) for run in same]
            ours = headline_number(numbers, bounds=bounds_of(value.number, numbers))
            first = same[0].config
            shared = {
                name: first[name]
                for name in qualifying
                if all(name in run.config and run.config[name] == first[name] for run in same)
            }
            compared.append(PublishedComparison(value, ours, {**value.settings, **shared}))
    return compared
