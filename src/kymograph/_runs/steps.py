"""The steps at which series are measured: checked when logged, stored in the smallest exact type, aligned when read.

A step is an integer or a fraction, such as an epoch of 0.5: int64 or float64, as it was given. Steps may repeat or
decrease, e.g. if a program starts to count again; their values are kept in the order of logging.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kymograph._errors import KymographError
from kymograph._runs.storable import shown

Step = int | float
EXACT = 2**53
"""Up to here, every integer is a float64."""
_INT32, _INT64 = np.iinfo(np.int32), np.iinfo(np.int64)


def checked_step(step: Any) -> Step:
    """Returns one step, a number or a tensor or array with one number, as an int or a float; raises if it is neither.

    >>> checked_step(np.int32(3)), checked_step(0.5)
    (3, 0.5)
    """
    kind = getattr(getattr(step, "dtype", None), "kind", "i")  # numpy's; "M" and "m" are dates
    plain = step.item() if hasattr(step, "item") and getattr(step, "shape", None) in ((), (1,)) else step
    if isinstance(plain, bool) or not isinstance(plain, int | float) or kind not in "iuf":
        raise KymographError(f"a step must be a number, not {shown(step)}")
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise KymographError(f"a step must be finite, not {plain}")
        return float(plain)
    if not _INT64.min <= plain <= _INT64.max:
        raise KymographError(f"a step must fit in 64 bits, unlike {shown(plain)}; log it as a float")
    return int(plain)


def stored_steps(steps: np.ndarray, series: str) -> np.ndarray:
    """Returns the steps (steps,) of a series as they are stored: int32 if they fit, else int64; fractions are float64.

    Raises if they are not finite numbers, or do not fit.
    """
    if not len(steps):
        return np.empty(0, dtype=np.int32)
    if steps.dtype.kind in "iu":
        low, high = int(steps.min()), int(steps.max())
        if high > _INT64.max:
            raise KymographError(f"the series {series!r} has the step {high}, which does not fit in 64 bits")
        small = _INT32.min <= low and high <= _INT32.max
        return np.ascontiguousarray(steps, dtype=np.int32 if small else np.int64)
    if steps.dtype.kind != "f":
        raise KymographError(f"the series {series!r} has steps of type {steps.dtype}; steps are integers or floats")
    wide = np.ascontiguousarray(steps, dtype=np.float64)
    if not np.isfinite(wide).all() or not np.array_equal(wide, steps):
        wrong = steps[~(np.isfinite(wide) & (wide == steps))][0]
        raise KymographError(f"the series {series!r} has the step {wrong}; a step must be a finite float64")
    return wide


def increases(steps: np.ndarray) -> bool:
    """Returns whether each step (steps,) is larger than the one before."""
    return bool((steps[1:] > steps[:-1]).all())


def decreases(steps: np.ndarray) -> bool:
    """Returns whether some step (steps,) is smaller than the one before."""
    return bool((steps[1:] < steps[:-1]).any())


def step_notes(steps: Mapping[str, np.ndarray]) -> list[str]:
    """Returns a sentence about the series, given their steps by name, whose steps repeat or decrease."""
    unusual = {name: grid for name, grid in steps.items() if not increases(grid)}
    groups = {
        "repeat": [name for name, grid in unusual.items() if not decreases(grid)],
        "decrease": [name for name, grid in unusual.items() if decreases(grid)],
    }
    return [
        f"the steps of {', '.join(names)} {verb}; every value is kept, in the order of logging"
        for verb, names in groups.items()
        if names
    ]


def of_one_type(grids: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Returns the steps of several series as int64, or as float64 if some are; raises if that would change a step."""
    arrays = list(grids)
    if all(steps.dtype.kind == "i" for steps in arrays):
        return [steps.astype(np.int64, copy=False) for steps in arrays]
    for steps in arrays:
        if steps.dtype.kind == "i" and len(large := steps[(steps > EXACT) | (steps < -EXACT)]):
            raise KymographError(
                f"some series have fractional steps, and others integers as large as {large.max()}, which no single "
                "type holds exactly; select runs, or read their series one by one"
            )
    return [steps.astype(np.float64, copy=False) for steps in arrays]


def aligned(grids: Sequence[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Returns all steps of several series in increasing order, (rows,), and the row of every step of each series.

    A step that a series has several times has that many rows, in the order of logging.

    >>> steps, rows = aligned([np.array([0, 1, 1, 4]), np.array([1, 2])])
    >>> steps.tolist(), [of.tolist() for of in rows]
    ([0, 1, 1, 2, 4], [[0, 1, 2, 4], [1, 3]])
    """
    arrays = of_one_type(grids)
    every = np.unique(np.concatenate(arrays))
    if all(map(increases, arrays)):
        return every, [np.searchsorted(every, steps) for steps in arrays]
    most = np.zeros(len(every), dtype=np.intp)
    found = []
    for steps in arrays:
        position = np.searchsorted(every, steps)
        order = np.argsort(position, kind="stable")
        counts = np.bincount(position, minlength=len(every))
        repetition = np.empty(len(steps), dtype=np.intp)
        repetition[order] = np.arange(len(steps)) - np.repeat(np.cumsum(counts) - counts, counts)
        most = np.maximum(most, counts)
        found.append((position, repetition))
    first = np.cumsum(most) - most
    return np.repeat(every, most), [first[position] + repetition for position, repetition in found]
