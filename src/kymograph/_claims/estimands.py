"""Which numbers a claim compares: one per side and seed, from a run's summary or a reduced series."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kymograph._claims.claim import Check, Claim, Measure, Side, side_text, with_labels
from kymograph._claims.evidence import CannotDecide, Run, StudyEvidence, paired_runs, runs_by_seed
from kymograph._claims.verdict import Checked, Point
from kymograph._errors import KymographError, did_you_mean
from kymograph._rounding import number_text
from kymograph._runs.declaration import bounds_of
from kymograph._runs.divergence import Divergence, find_divergence
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.thin_run import ThinRun
from kymograph._statistics.p_values import LEAST_SEEDS, max_t

Range = tuple[float, float]
EVERYTHING: Range = (-math.inf, math.inf)
_REDUCE: dict[str, Callable[[np.ndarray], Any]] = {
    "mean": np.mean,
    "median": np.median,
    "95th percentile": lambda values: np.quantile(values, 0.95),
    "min": np.min,
    "max": np.max,
    "std": np.std,
}
_INSIDE = (None, "last", "first", "mean", "median", "95th percentile", "min", "max")
"""Reductions of a series whose result lies among its values."""
_LARGEST = sys.float_info.max / 2**20  # so that neither differences nor sums over a million seeds overflow
_ROUNDING = 1e-12
"""The relative difference of two numbers that float64 may give the same computation in another order."""


def compared_points(claim: Claim, evidence: StudyEvidence) -> tuple[list[Point], dict[int, Divergence]]:
    """Returns every seed's numbers, and the diverged seeds left out as declared; raises `CannotDecide` if it must."""
    sides, declaration = paired_runs(claim, evidence), evidence.declaration
    points: list[Point] = []
    dropped: dict[int, Divergence] = {}
    for seed in sorted(sides[0]):
        runs = [side[seed] for side in sides]
        numbers = [measure(run, side.measure) for run, side in zip(runs, claim.sides, strict=True)]
        lost = [_divergence(value, run) for value, run in zip(numbers, runs, strict=True)]
        gone = [(side, why) for side, why in zip(claim.sides, lost, strict=True) if why is not None]
        if gone:
            side, why = gone[0]
            if claim.diverged == "drop":
                dropped[seed] = why
                continue
            raise CannotDecide(f"{side_text(side, declaration)} is not finite at seed {seed}: it {why}")
        for value, side in zip(numbers, claim.sides, strict=True):
            if math.isnan(value):
                raise CannotDecide(f"{side_text(side, declaration)} is missing at seed {seed}")
        if not isinstance(claim.right, Side):
            numbers.append(float(claim.right))
        if claim.scale == "log ratio" and min(numbers) <= 0:
            index = next(index for index, value in enumerate(numbers) if value <= 0)
            within = index < len(claim.sides)
            name = side_text(claim.sides[index], declaration) if within else "the number compared with"
            raise CannotDecide(f"{name} is {numbers[index]:g} at seed {seed}, and a ratio needs positive numbers")
        if claim.scale != "log ratio" and (largest := max(map(abs, numbers))) > _LARGEST:
            raise CannotDecide(f"a number at seed {seed} is as large as {largest:g}: its statistics would overflow")
        points.append(_point(seed, numbers, claim))
    return points, dropped


def _divergence(value: float, run: Run) -> Divergence | None:
    """Returns where a run diverged if its number is infinite, or is missing and the run diverged; else None."""
    if math.isfinite(value):
        return None
    found = run.divergence if isinstance(run, StoredRun) else find_divergence(run.summary, lambda: run.series)
    return Divergence(None) if found is None and math.isinf(value) else found


def _point(seed: int, numbers: Sequence[float], claim: Claim) -> Point:
    """Returns a seed's evidence from its two numbers, or from the four of an interaction."""
    left, right = _differences(numbers, claim)
    if len(numbers) == 2:
        return Point(seed, numbers[0], numbers[1], left - right)
    return Point(seed, natural(claim, left), natural(claim, right), left - right, tuple(numbers))


def on_scale(point: Point, claim: Claim) -> Range:
    """Returns a seed's two compared numbers on the scale of the claim: logarithms for a ratio."""
    return _differences(point.parts or (point.left, point.right), claim)


def _differences(numbers: Sequence[float], claim: Claim) -> Range:
    """Returns two numbers, or the differences of two pairs of numbers, on the scale of the claim."""
    scaled = [math.log(number) for number in numbers] if claim.scale == "log ratio" else numbers
    return (scaled[0], scaled[1]) if len(scaled) == 2 else (scaled[0] - scaled[1], scaled[2] - scaled[3])


def natural(claim: Claim, value: float) -> float:
    """Returns a log-ratio as a ratio, a difference unchanged."""
    if claim.scale != "log ratio":
        return value
    return math.exp(value) if value < 709 else math.inf


def checked(check: Check, evidence: StudyEvidence) -> Checked:
    """Returns whether the check holds in every seed, and what was found."""
    runs = runs_by_seed(check.quantity, evidence)
    values = {seed: measure(run, check.quantity.measure) for seed, run in runs.items()}

    def holds(value: float) -> bool:
        if math.isnan(value):
            return False
        return check.least < value < check.most if check.strict else check.least <= value <= check.most

    bad = [seed for seed, value in values.items() if not holds(value)]
    numbers = np.array([values[seed] for seed in bad] if bad else list(values.values()))
    present = numbers[~np.isnan(numbers)]
    spread = number_text(present.min()) if len(present) else "missing"
    if len(present) and (present != present[0]).any():
        spread += f" to {number_text(present.max())}"
    if 0 < len(present) < len(numbers):
        spread += " or missing"
    where = f" at {len(bad)} of {len(values)} seeds" if bad else ""
    declaration = evidence.declaration
    text = f"{side_text(check.quantity, declaration)} is {spread}{where}"
    return Checked(with_labels(check.text, declaration), not bad, text)


def pinned(points: Sequence[Point], scale: str) -> str:
    """Returns why the numbers do not vary with the seed, as text; empty if they do.

    Numbers that agree, but for rounding, in more than half of the seeds are not replications: they are at a ceiling or
    a floor, the same thing was computed twice, or the seed has no effect.
    """
    groups: list[list[Point]] = []
    for point in sorted(points, key=lambda point: point.value):
        # A difference is as uncertain as the numbers it was taken of; the logarithm of a ratio is a pure number.
        size = 1.0 if scale == "log ratio" else max(map(abs, point.parts or (point.left, point.right)))
        if groups and point.value - groups[-1][-1].value <= _ROUNDING * size:
            groups[-1].append(point)
        else:
            groups.append([point])
    largest = max(groups, key=len, default=[])
    count = len(largest)
    if count <= max(1, len(points) / 2):
        return ""
    where = "every seed gives" if count == len(points) else f"{count} of {len(points)} seeds give"
    pairs = {(f"{point.left:g}", f"{point.right:g}") for point in largest}
    shown = "".join(f" ({left} against {right})" for left, right in pairs) if len(pairs) == 1 else ""
    return f"{where} the same number{shown}: a ceiling, a floor or an identity"


def measure(run: Run, what: Measure) -> float:
    """Returns a run's number; NaN if its value is missing; raises if the run has no such key, series or site."""
    if what.reduce is None:
        if what.name not in run.summary:
            raise KymographError(f"a run has no summary {what.name!r}{did_you_mean(what.name, run.summary)}")
        value = run.summary[what.name]
        if isinstance(value, str):
            raise KymographError(f"the summary {what.name!r} is a string, not a number")
        if value is not None and not isinstance(value, int | float):
            raise KymographError(f"the summary {what.name!r} is not a number")
        return math.nan if value is None else float(value)
    if isinstance(run, ThinRun) and (reduction := (what.name, what.reduce, what.site)) in run.reductions:
        return run.reductions[reduction]
    if what.name not in run.series:
        raise KymographError(f"a run has no series {what.name!r}{did_you_mean(what.name, run.series)}")
    series = run.series[what.name]
    values = np.asarray(series.value, dtype=np.float64)
    if what.reduce == "depth slope":
        return _depth_slope(values, what)
    if series.sites is not None:
        if what.site is None:
            raise KymographError(f"the series {what.name!r} has sites {', '.join(series.sites[:6])}; name one of them")
        if what.site == "last":
            return reduce(values[:, -1], what.reduce)
        if what.site not in series.sites:
            raise KymographError(f"{what.name!r} has no site {what.site!r}{did_you_mean(what.site, series.sites)}")
        values = values[:, series.sites.index(what.site)]
    return reduce(values, what.reduce)


def reduce(values: np.ndarray, how: str) -> float:
    """Returns a trajectory (steps,) reduced to one number; NaN if it is empty, or if a value that counts is missing.

    ``growth`` is the last value over the first, ``rises`` the share of measurements that exceed the one before, and
    ``least ratio`` the smallest ratio of a measurement to the one before.
    """
    if len(values) == 0:
        return math.nan
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if how in ("rises", "least ratio"):
            if len(values) < 2 or np.isnan(values).any():
                return math.nan
            return float(np.mean(np.diff(values) > 0) if how == "rises" else (values[1:] / values[:-1]).min())
        simple = {"last": values[-1], "first": values[0], "growth": values[-1] / values[0]}
        if how in simple:
            return float(simple[how])
        return float(_REDUCE[how](values))


def _depth_slope(values: np.ndarray, what: Measure) -> float:
    """Returns the slope of log(value) over the sites at the last step: the log of the gain per site."""
    if values.ndim != 2:
        raise KymographError(f"the series {what.name!r} has no sites, so it has no slope over depth")
    last = values[-1]
    if not (last > 0).all():
        return math.nan
    return float(np.polyfit(np.arange(len(last)), np.log(last), 1)[0])


def effect_bounds(claim: Claim, points: Sequence[Point], declared: Mapping[str, Range] | None = None) -> Range:
    """Returns the smallest and the largest possible effect; infinite where there is no limit.

    A difference of two accuracies lies in [-1, 1], an accuracy's difference from 0.1 in [-0.1, 0.9]. ``declared``
    holds the ranges that the study states; those of accuracies, probabilities and cosines are recognised by name.
    """
    columns = list(zip(*(point.parts or (point.left, point.right) for point in points), strict=True))
    sides = (claim.left, claim.right, *(claim.interaction or ()))
    ranges = [
        measure_bounds(side.measure, values, declared) if isinstance(side, Side) else (float(side), float(side))
        for side, values in zip(sides, columns, strict=True)
    ]
    compared = _ratio if claim.scale == "log ratio" else _difference
    effect = compared(ranges[0], ranges[1])
    return compared(effect, compared(ranges[2], ranges[3])) if claim.interaction is not None else effect


def measure_bounds(measure: Measure, values: Sequence[float], declared: Mapping[str, Range] | None = None) -> Range:
    """Returns the range that a measure cannot leave, given its values."""
    if measure.reduce == "rises":  # a share of measurements
        return 0.0, 1.0
    if measure.reduce not in _INSIDE:
        return EVERYTHING
    return bounds_of(measure.name, values, declared) or EVERYTHING


def _difference(left: Range, right: Range) -> Range:
    return left[0] - right[1], left[1] - right[0]


def _ratio(left: Range, right: Range) -> Range:
    """Returns the range of a ratio; numbers compared as a ratio are positive in every seed."""
    return max(left[0], 0.0) / right[1], left[1] / right[0] if right[0] > 0 else math.inf


@dataclass(frozen=True)
class DifferenceMap:
    """Mean differences over seeds at every step (and site), and their p-values, adjusted over the whole map."""

    effect: np.ndarray  # (step,) or (step, site): mean of left - right, or of log left - log right
    p: np.ndarray
    """Two-sided, by the largest |t| of the map under joint sign flips of seeds; NaN where nothing could be compared."""
    steps: tuple[int, ...]
    sites: tuple[str, ...] | None
    seeds: tuple[int, ...]

    def first(self, alpha: float = 0.05) -> int | None:
        """Returns the first step at which the arms differ at any site; None if they never do."""
        rows = self.p.reshape(len(self.steps), -1)
        return next((step for step, row in zip(self.steps, rows, strict=True) if (row <= alpha).any()), None)


def difference_map(store: Store, series: str, left: str, right: str, log: bool = False) -> DifferenceMap:
    """Compares a series of two arms at every step and site, paired by seed.

    >>> found = ky.difference_map(ky.Store.open("runs"), "grad_norm", "warmup", "constant", log=True)
    >>> found.sites, found.p.shape, bool((found.p < 0.05).any())
    (('layer 1', 'layer 2'), (3, 2), True)

    Args:
        store: the runs; one setting per arm.
        series: the series' name.
        left, right: the arms.
        log: whether to compare logarithms, as is usual for norms and losses.
    """
    array = store.finished.select(arms=[left, right]).series(series)
    first, second = (np.asarray(array.sel(arm=arm).values, dtype=np.float64) for arm in (left, right))
    whole = [seed for seed in range(len(first)) if not (np.isnan(first[seed]).all() or np.isnan(second[seed]).all())]
    if len(whole) < LEAST_SEEDS:
        raise KymographError(f"{len(whole)} seeds have both arms, but a map needs at least {LEAST_SEEDS}")
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = (np.log(first) - np.log(second) if log else first - second)[whole]
    differences[~np.isfinite(differences)] = np.nan
    table = differences.reshape(len(whole), -1)
    p = max_t(table).reshape(differences.shape[1:])
    sites = array.labels.get("site")
    return DifferenceMap(
        differences.mean(0), p, tuple(array.labels["step"]), None if sites is None else tuple(sites),
        tuple(array.labels["seed"][index] for index in whole),
    )  # fmt: skip
