"""A measured quantity over many runs, as an array with labelled axes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kymograph.errors import KymographError, did_you_mean
from kymograph.runs.frames import import_pandas, import_xarray


@dataclass(frozen=True)
class LabelledArray:
    """A measured quantity over many runs, with the labels of each axis; absent entries are NaN.

    >>> loss = store.series("loss")              # axes (arm, seed, step)
    >>> loss.sel(arm="adam", seed=42).values     # a curve
    >>> loss.to_pandas()                         # a column per axis
    """

    name: str
    values: np.ndarray  # (arm, seed, step[, site]), without the axes that `sel` has fixed
    axes: tuple[str, ...]
    labels: Mapping[str, tuple]

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self.values.shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.values, dtype=dtype, copy=True if copy else None)

    def sel(self, **chosen: Any) -> LabelledArray:
        """Returns the part at the named labels, e.g. ``sel(arm="plain", seed=42)``; those axes are dropped."""
        array = self
        for axis, label in chosen.items():
            if axis not in array.axes:
                raise KymographError(f"{self.name} has no axis {axis!r}{did_you_mean(axis, array.axes)}")
            if label not in array.labels[axis]:
                known = (str(item) for item in array.labels[axis][:12])
                raise KymographError(f"{self.name} has no {axis} {label!r}{did_you_mean(str(label), known)}")
            where = array.axes.index(axis)
            array = LabelledArray(
                self.name,
                np.take(array.values, array.labels[axis].index(label), axis=where),
                tuple(name for name in array.axes if name != axis),
                {name: labels for name, labels in array.labels.items() if name != axis},
            )
        return array

    def to_pandas(self) -> Any:
        """Returns a long table: a column per axis, and a column of values named after the quantity."""
        pandas = import_pandas()
        column = self.name if self.name not in self.axes else "value"
        grids = np.indices(self.shape).reshape(len(self.axes), self.values.size)  # (axes, values)
        columns = {
            axis: np.array(self.labels[axis], dtype=None if axis in ("seed", "step") else object)[positions]
            for axis, positions in zip(self.axes, grids, strict=True)
        }
        return pandas.DataFrame({**columns, column: self.values.reshape(-1)})

    def to_xarray(self) -> Any:
        """Returns an ``xarray.DataArray`` with the axes as dimensions and their labels as coordinates."""
        coordinates = {axis: list(self.labels[axis]) for axis in self.axes}
        return import_xarray().DataArray(self.values, dims=self.axes, coords=coordinates, name=self.name)

    def __repr__(self) -> str:
        lines = [f"<{self.name}: {', '.join(f'{axis} {len(self.labels[axis])}' for axis in self.axes)}>"]
        for axis in self.axes:
            labels = self.labels[axis]
            shown = ", ".join(map(str, labels)) if len(labels) <= 8 else f"{labels[0]} … {labels[-1]}"
            lines.append(f"  {axis}: {shown}")
        return "\n".join(lines)
