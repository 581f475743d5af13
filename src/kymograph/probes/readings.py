"""Readings of measured steps: kept on their device, moved to the CPU in blocks, returned as arrays."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

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


Key = tuple[str, str]  # a quantity and a site
Number = Tensor | float
Row = dict[Key, Number]
Kind = tuple[torch.device, torch.dtype]
BLOCK = 64


class ReadingTable:
    """Rows of readings, one per measured step; a reading is a zero-dimensional tensor or a number.

    Rows are kept as they are until a block is full, so that a step costs next to nothing and an accelerator is
    synchronised once per block. A tensor on the CPU becomes a number at once: small tensors that are kept would
    fragment the memory that training reuses.
    """

    def __init__(self, block: int = BLOCK) -> None:
        self._size = block
        self._rows: list[Row] = []
        self._columns: dict[Key, int] = {}
        self._done: list[tuple[list[int], np.ndarray]] = []  # by block: columns, and values (rows, columns)
        self.steps: list[int] = []

    def add(self, step: int, row: Row) -> None:
        """Adds the readings of ``step``."""
        for key, value in row.items():
            if type(value) is not float and isinstance(value, Tensor) and value.is_cpu:
                row[key] = float(value)
        self._rows.append(row)
        self.steps.append(step)
        if len(self._rows) == self._size:
            self.flush()

    def flush(self) -> None:
        """Moves pending rows to the CPU."""
        rows, self._rows = self._rows, []
        for keys, group in itertools.groupby(rows, key=list):
            columns = [self._columns.setdefault(key, len(self._columns)) for key in keys]
            self._done.append((columns, _numbers([list(row.values()) for row in group])))

    def keys(self) -> list[Key]:
        """Returns the quantities and sites that were read so far, in the order in which they were first read."""
        self.flush()
        return list(self._columns)

    def columns(self) -> dict[Key, tuple[np.ndarray, np.ndarray]]:
        """Returns for each key the values (steps,), NaN where none was read, and a mask (steps,) of those read."""
        self.flush()
        values = np.full((len(self.steps), len(self._columns)), np.nan)
        read = np.zeros(values.shape, dtype=bool)
        start = 0
        for columns, block in self._done:
            values[start : start + len(block), columns] = block
            read[start : start + len(block), columns] = True
            start += len(block)
        return {key: (values[:, column], read[:, column]) for key, column in self._columns.items()}

    def state(self) -> dict[str, Any]:
        """Returns all readings so far, for a run that may be resumed."""
        self.flush()
        blocks: list[tuple[list[int], list[np.ndarray]]] = []
        for columns, values in self._done:
            if blocks and blocks[-1][0] == columns:
                blocks[-1][1].append(values)
            else:
                blocks.append((columns, [values]))
        self._done = [(columns, np.concatenate(values)) for columns, values in blocks]
        return {
            "steps": np.array(self.steps, dtype=np.int64),
            "keys": [list(key) for key in self._columns],
            "blocks": [{"columns": list(columns), "values": values} for columns, values in self._done],
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        self._rows = []
        self.steps = [int(step) for step in state["steps"]]
        self._columns = {(name, site): column for column, (name, site) in enumerate(state["keys"])}
        self._done = [(list(one["columns"]), np.asarray(one["values"])) for one in state["blocks"]]


def _numbers(rows: list[list[Number]]) -> np.ndarray:
    """Returns readings as float64, (rows, keys); all tensors of one dtype and device are read at once."""
    table = np.full((len(rows), len(rows[0])), np.nan)
    kinds: dict[Kind, list[tuple[int, int, Tensor]]] = {}
    for number, row in enumerate(rows):
        for column, value in enumerate(row):
            if isinstance(value, Tensor):
                kinds.setdefault((value.device, value.dtype), []).append((number, column, value))
            else:
                table[number, column] = value
    for found in kinds.values():
        columns = [column for _, column, _ in found]
        table[[number for number, _, _ in found], columns] = torch.stack([one for _, _, one in found]).cpu().double()
    return table


def combine(values: Sequence[Number], how: str) -> Number:
    """Combines the readings of several calls of a layer into one, on their device."""
    if not any(isinstance(value, Tensor) for value in values):
        numbers = [float(value) for value in values]
        found = combine_columns([(np.array([number]), np.array([True])) for number in numbers], how)
        return float(found[0])
    stacked = torch.stack([value for value in values if isinstance(value, Tensor)])
    if how == "norm":
        return torch.linalg.vector_norm(stacked, dim=0)
    if how == "max":
        return stacked.amax(0)
    if how == "sum":
        return stacked.sum(0)
    return stacked.mean(0) if stacked.is_floating_point() else stacked.double().mean(0)
