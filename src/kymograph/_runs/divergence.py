"""Divergence: whether a finished run's numbers stopped being finite, and at which step.

This is the one definition. In this order:

1. A study may say so itself: a summary whose ``finite`` is false diverged, one whose ``finite`` is true did not.
2. Otherwise a run diverged if a loss, at some site, was finite, then not, and never again until its last measurement. A
   loss is a series with one of `LOSSES` in its name. A loss that has NaN between finite values has it for "not
   measured", so at its end only an infinity counts.
3. Otherwise a run diverged if a loss among its summary numbers is infinite.

Other series do not decide: an angle to a gradient that has vanished is NaN, and so is a measurement that was not taken.

The step is the first at which a loss that had been finite was not; if no loss shows it, that of any other series that
never was finite again. It is stored with the summary, so that a list of runs need not read their series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kymograph._runs.steps import Step

if TYPE_CHECKING:
    from kymograph._runs.record import RunSeries

FINITE = "finite"
"""The summary number by which a study says whether a run diverged."""
LOSSES = ("loss", "nll", "mse", "perplexity", "cross_entropy", "objective")
"""What the name of a loss contains."""
_INFINITE = (math.inf, -math.inf, "Infinity", "-Infinity")  # as computed, and as a record's JSON spells them


@dataclass(frozen=True)
class Divergence:
    """The first step at which a run's numbers were not finite.

    >>> print(Divergence(212))
    diverged at step 212
    """

    step: Step | None
    """None if the stored series do not show it."""

    def __str__(self) -> str:
        return "diverged" if self.step is None else f"diverged at step {self.step}"

    @staticmethod
    def of(stored: Any) -> Divergence | None:
        """Returns what a record's JSON states; raises ValueError if it is not a divergence."""
        if stored is None:
            return None
        step = stored["step"] if isinstance(stored, dict) and stored.keys() == {"step"} else math.nan
        if step is None or type(step) is int or (isinstance(step, float) and math.isfinite(step)):
            return Divergence(step)
        raise ValueError("it states no step")


def find_divergence(
    summary: Mapping[str, Any], read_series: Callable[[], Mapping[str, RunSeries]]
) -> Divergence | None:
    """Returns where a finished run diverged; None if it did not. The series are read only if the summary is silent."""
    declared = summary.get(FINITE)
    if declared is True:
        return None
    series = read_series()
    losses = [entry for name, entry in series.items() if is_loss(name)]
    if declared is False:
        others = [entry for name, entry in series.items() if not is_loss(name)]
        first = _earliest(map(_first_not_finite, losses))
        return Divergence(_earliest(map(_never_finite_again, others)) if first is None else first)
    step = _earliest(map(_never_finite_again, losses))
    overflowed = any(value in _INFINITE for name, value in summary.items() if is_loss(name))
    return None if step is None and not overflowed else Divergence(step)


def is_loss(name: str) -> bool:
    """Returns whether a series or a summary number of this name is a loss.

    >>> is_loss("train/loss"), is_loss("grad_norm")
    (True, False)
    """
    return any(word in name.lower() for word in LOSSES)


def declared_diverged(summary: Mapping[str, Any]) -> bool:
    """Returns whether a study itself says that a run diverged."""
    return summary.get(FINITE) is False


def diverged_text(divergences: Sequence[Divergence]) -> str:
    """Returns how many runs diverged, and when; empty if none did.

    >>> diverged_text([Divergence(300), Divergence(212)]), diverged_text([Divergence(None)])
    ('2 diverged at steps 212 to 300', '1 diverged')
    """
    if not divergences:
        return ""
    steps = sorted(divergence.step for divergence in divergences if divergence.step is not None)
    count = f"{len(divergences)} diverged"
    if not steps:
        return count
    when = f"at step {steps[0]}" if steps[0] == steps[-1] else f"at steps {steps[0]} to {steps[-1]}"
    return f"{count} {when}" if len(steps) == len(divergences) else f"{count}, {len(steps)} of them {when}"


def _earliest(steps: Iterable[Step | None]) -> Step | None:
    return min((step for step in steps if step is not None), default=None)


def _first_not_finite(series: RunSeries) -> Step | None:
    """Returns the first step at which a site that had been finite was not, or, if none ever was, the first step."""
    finite = _finite(series)
    if finite.all():
        return None
    if not finite.any():
        return _step(series, 0)
    lost = ~finite & np.logical_or.accumulate(finite, axis=0)
    return _step(series, int(lost.any(axis=1).argmax())) if lost.any() else None


def _never_finite_again(series: RunSeries) -> Step | None:
    """Returns the first step from which a site that had been finite was not until the end; None if there is none."""
    finite = _finite(series)
    if finite.all() or not finite.any():
        return None
    values = np.asarray(series.value).reshape(finite.shape)
    rows = len(finite)
    starts = []
    for site in np.flatnonzero(finite.any(axis=0) & ~finite[-1]):
        column = finite[:, site]
        last = rows - 1 - int(column[::-1].argmax())
        gaps = not column[int(column.argmax()) : last].all()
        if not gaps or np.isinf(values[last + 1 :, site]).any():
            starts.append(last + 1)
    return _step(series, min(starts)) if starts else None


def _finite(series: RunSeries) -> np.ndarray:
    """Returns which values are finite, (steps, sites)."""
    finite: np.ndarray = np.isfinite(series.value)
    return finite.reshape(len(finite), -1 if finite.size else 0)


def _step(series: RunSeries, row: int) -> Step:
    step: Step = series.step[row].item()
    return step
