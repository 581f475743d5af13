"""Readings as arrays (steps, layers): combines readings of one layer, and computes quantities from others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kymograph.probes.quantities import LoadedQuantity


@dataclass(frozen=True)
class QuantityColumns:
    """One quantity: ``value[i]`` was taken at ``step[i]``; a second axis runs over ``sites``, if there are any."""

    step: np.ndarray  # (steps,)
    value: np.ndarray  # (steps,) or (steps, sites)
    sites: tuple[str, ...] | None


@dataclass(frozen=True)
class MeasuredStep:
    """The readings of one measured step: ``values[quantity][layer]``; NaN is missing."""

    step: int
    values: dict[str, dict[str, float]]


def measured_steps(columns: Mapping[str, QuantityColumns], network: str) -> list[MeasuredStep]:
    """Returns the readings step by step; a quantity without sites has the single site ``network``."""
    steps = next(iter(columns.values())).step.tolist() if columns else []
    return [
        MeasuredStep(
            step,
            {
                name: {network: float(one.value[index])}
                if one.sites is None
                else dict(zip(one.sites, one.value[index].tolist(), strict=True))
                for name, one in columns.items()
            },
        )
        for index, step in enumerate(steps)
    ]


def combine_columns(columns: Sequence[tuple[np.ndarray, np.ndarray]], how: str) -> np.ndarray:
    """Combines several readings of one layer into one value per step, (steps,); NaN where none was taken.

    A reading of NaN makes the value NaN; one that was not taken is left out.

    >>> here, gone = np.array([True]), np.array([False])
    >>> combine_columns([(np.array([3.0]), here), (np.array([4.0]), here), (np.array([np.nan]), gone)], "norm")
    array([5.])
    """
    values = np.stack([value for value, _ in columns])
    read = np.stack([present for _, present in columns])
    if how == "norm":
        # unlike squares, hypot neither overflows nor underflows
        found = np.hypot.reduce(np.where(read, values, 0.0), axis=0)
    elif how == "max":
        found = np.max(np.where(read, values, -np.inf), axis=0)
    else:
        found = np.sum(np.where(read, values, 0.0), axis=0)
        if how == "mean":
            found = found / np.maximum(read.sum(0), 1)
    return np.where(read.any(0), found, np.nan)


def derived(quantity: LoadedQuantity, found: Mapping[str, QuantityColumns]) -> QuantityColumns:
    """Computes a quantity from others, at the sites that all of them share."""
    sources = [found[name] for name in quantity.sources]
    shared = [site for site in sources[0].sites or () if all(site in (one.sites or ()) for one in sources)]
    arrays = [one.value[:, [(one.sites or ()).index(site) for site in shared]] for one in sources]
    return QuantityColumns(sources[0].step, quantity.function(*arrays), tuple(shared))
