"""Which numbers decide a claim: one per side and seed, checked, and staged as its design allows."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kymograph._claims.claim import Check, Claim, Measure, Side, side_text, with_labels
from kymograph._claims.design import LEVEL, PlannedLook, stage
from kymograph._claims.evidence import CannotDecide, StudyEvidence, paired_runs, remarks, runs_by_seed
from kymograph._claims.measures import Run, measure
from kymograph._claims.verdict import Checked, Point
from kymograph._errors import KymographError
from kymograph._rounding import number_text
from kymograph._runs.declaration import bounds_of
from kymograph._runs.divergence import Divergence, find_divergence
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._statistics.p_values import LEAST_SEEDS, max_t

Range = tuple[float, float]
EVERYTHING: Range = (-math.inf, math.inf)
_INSIDE = (None, "last", "first", "mean", "median", "95th percentile", "min", "max")
"""Reductions of a series whose result lies among its values."""
_LARGEST = sys.float_info.max / 2**20  # so that neither differences nor sums over a million seeds overflow
_ROUNDING = 1e-12
"""The relative difference of two numbers that float64 may give the same computation in another order."""


@dataclass(frozen=True)
class Estimate:
    """The numbers that decide a claim, or why it cannot be decided."""

    points: tuple[Point, ...] = ()
    checks: tuple[Checked, ...] = ()
    notes: tuple[str, ...] = ()
    """What a reader must know about the runs and seeds behind the numbers."""
    looks: tuple[PlannedLook, ...] = ()
    """The looks that the points complete, as in `Staged`."""
    level: float = LEVEL
    """The level of the effect's interval."""
    problem: str = ""
    """Why the claim is INVALID; empty if it can be decided."""

    @property
    def values(self) -> np.ndarray:
        """Each seed's difference or log-ratio left - right, (seeds,)."""
        return np.array([point.value for point in self.points])


def estimate(claim: Claim, evidence: StudyEvidence) -> Estimate:
    """Returns the numbers that a claim compares, in the seeds that its design allows to be used now."""
    try:
        # Checks come first: a failed check is the reason, not its consequences for the numbers.
        checks = [checked(check, evidence) for check in claim.checks]
        failed = [f'the check "{check.text}" failed: {check.found}' for check in checks if not check.passed]
        try:
            points, dropped = compared_points(claim, evidence)
        except CannotDecide as why:
            raise CannotDecide("; ".join(failed) or why.reason, (), checks) from None
        if failed:
            raise CannotDecide("; ".join(failed), points, checks)
        terms = evidence.terms
        staged = stage(points, dropped, *((None, None) if terms is None else (terms.seeds, terms.design)))
        if same := pinned(staged.points, claim.scale):
            raise CannotDecide(same, points, checks)
        left_out = [f"{seed}" if why.step is None else f"{seed} (at step {why.step})" for seed, why in dropped.items()]
        notes = [f"seeds {', '.join(left_out)} diverged and were left out, as declared"] if dropped else []
        if len(staged.points) < LEAST_SEEDS:
            few = f"{len(staged.points)} seeds, and fewer than {LEAST_SEEDS} can show nothing at the 5 % level"
            raise CannotDecide("; ".join([few, *notes]), points, checks)
    except CannotDecide as why:
        return Estimate(why.points, why.checks, tuple(remarks(claim, evidence)), problem=why.reason)
    except KymographError as error:
        return Estimate(problem=str(error))
    said = (*notes, *staged.notes, *remarks(claim, evidence))
    return Estimate(staged.points, tuple(checks), said, staged.looks, staged.level)


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
