"""Readings of measured steps: kept on their device, moved to the CPU in blocks, returned as arrays."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kymograph._probes.norms import vector_norm
from kymograph._probes.quantities import LoadedQuantity
from kymograph._runs.record import RunSeries

Key = tuple[str, str]  # a quantity and a site
Number = Tensor | float
Row = dict[Key, Number]
Reading = tuple[int, Number]  # the number of a micro-batch, and what was read in it
Column = tuple[np.ndarray, np.ndarray]  # values (steps,), and a mask (steps,) of those that were read
BLOCK = 64


@dataclass(frozen=True)
class MeasuredStep:
    """The readings of one measured step: ``values[quantity][layer]``; NaN is missing."""

    step: int
    values: dict[str, dict[str, float]]


def combine_columns(columns: Sequence[Column], how: str) -> np.ndarray:
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
        combined = np.hypot.reduce(np.where(read, values, 0.0), axis=0)
    elif how == "max":
        combined = np.max(np.where(read, values, -np.inf), axis=0)
    else:
        combined = np.sum(np.where(read, values, 0.0), axis=0)
        if how == "mean":
            combined = combined / np.maximum(read.sum(0), 1)
    return np.where(read.any(0), combined, np.nan)


def derived(quantity: LoadedQuantity, every_series: Mapping[str, RunSeries]) -> RunSeries:
    """Computes a quantity from others, at the sites that all of them share."""
    sources = [every_series[name] for name in quantity.sources]
    sites = [source.sites or () for source in sources]
    shared = [site for site in sites[0] if all(site in others for others in sites)]
    arrays = [
        source.value[:, [names.index(site) for site in shared]] for source, names in zip(sources, sites, strict=True)
    ]
    return RunSeries(sources[0].step, quantity.function(*arrays), tuple(shared))


class ReadingTable:
    """Rows of readings, one per measured step; a reading is a zero-dimensional tensor or a number.

    Rows are kept as they are until a block is full, so that a step costs next to nothing and an accelerator is
    synchronised once per block. A tensor on the CPU becomes a number at once: small tensors that are kept would
    fragment the memory that training reuses.
    """

    def __init__(self, block: int = BLOCK) -> None:
        self._size = block
        self._rows: list[Row] = []
        self._pending: list[int] | None = None  # if rows are combined with those of other ranks: steps not yet combined
        self._columns: dict[Key, int] = {}
        self._done: list[tuple[list[int], np.ndarray]] = []  # by block: columns, and values (rows, columns)
        self.steps: list[int] = []

    def share(self) -> None:
        """Keeps rows until they are taken, to be combined with those of other ranks."""
        self._pending = []

    @property
    def measured(self) -> int:
        """How many steps were measured, those included that are not yet combined."""
        return len(self.steps) + len(self._pending or ())

    def take(self) -> tuple[list[int], list[Row]]:
        """Returns the steps and rows that are not yet combined, and forgets them."""
        steps, rows = self._pending or [], self._rows
        self._pending, self._rows = [], []
        return steps, rows

    def give(self, steps: Sequence[int], rows: Sequence[Row]) -> None:
        """Adds combined rows."""
        self.steps += steps
        self._store(rows)

    def add(self, step: int, row: Row) -> None:
        """Adds the readings of ``step``."""
        for key, value in row.items():
            if type(value) is not float and isinstance(value, Tensor) and value.is_cpu and not value.dim():
                row[key] = float(value)
        self._rows.append(row)
        if self._pending is not None:
            self._pending.append(step)
            return
        self.steps.append(step)
        if len(self._rows) == self._size:
            self.flush()

    def flush(self) -> None:
        """Moves pending rows to the CPU, unless they are to be combined with those of other ranks."""
        if self._pending is None:
            rows, self._rows = self._rows, []
            self._store(rows)

    def _store(self, rows: Sequence[Row]) -> None:
        for keys, group in itertools.groupby(rows, key=list):
            columns = [self._columns.setdefault(key, len(self._columns)) for key in keys]
            self._done.append((columns, _numbers([list(row.values()) for row in group])))

    def columns(self) -> dict[Key, Column]:
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
        self._pending = None if self._pending is None else []
        self.steps = [int(step) for step in state["steps"]]
        self._columns = {(name, site): column for column, (name, site) in enumerate(state["keys"])}
        self._done = [(list(block["columns"]), np.asarray(block["values"])) for block in state["blocks"]]


def _numbers(rows: list[list[Number]]) -> np.ndarray:
    """Returns readings as float64, (rows, keys); all tensors of one dtype and device are read at once."""
    table = np.full((len(rows), len(rows[0])), np.nan)
    kinds: dict[tuple[torch.device, torch.dtype], list[tuple[int, int, Tensor]]] = {}
    for index, row in enumerate(rows):
        for column, value in enumerate(row):
            if isinstance(value, Tensor):
                kinds.setdefault((value.device, value.dtype), []).append((index, column, value))
            else:
                table[index, column] = value
    for readings in kinds.values():
        indices, columns, tensors = zip(*readings, strict=True)
        table[indices, columns] = torch.stack(tensors).cpu().double()
    return table


def combine_micro_batches(readings: Sequence[Reading], together: str, across: str, units: bool = False) -> Number:
    """Combines the readings of a layer in several micro-batches into that of the batch, as ``across`` says.

    ``units``: of a union, return a vector that is above 0 for each unit that is in it, instead of their number.

    The first calls of the layer in all micro-batches are one call on the batch, as are the second ones, and so on.
    Raises a ValueError if the readings do not tell what that of the batch is.
    """
    calls: dict[int, list[Number]] = {}
    for number, value in readings:
        calls.setdefault(number, []).append(value)
    if across != "union" and (not across or len(calls) == 1):
        return combine([value for _, value in readings], together)
    if across == "undefined":
        raise ValueError("that of a batch does not follow from those of its micro-batches")
    if len({tuple(np.shape(value) for value in values) for values in calls.values()}) > 1:
        raise ValueError("the layer's calls differ between the micro-batches")
    batch = list(zip(*calls.values(), strict=True))
    if across == "union" and units:
        return torch.cat([torch.stack(values).sum(0).reshape(-1) for values in batch])
    if across == "union":
        return combine([torch.count_nonzero(torch.stack(values).sum(0)) for values in batch], together)
    return combine([combine(values, across) for values in batch], together)


def combine(values: Sequence[Number], how: str) -> Number:
    """Combines the readings of several calls of a layer into one, on their device."""
    if not any(isinstance(value, Tensor) for value in values):
        read = np.array([True])
        return float(combine_columns([(np.array([float(value)]), read) for value in values], how)[0])
    stacked = torch.stack([value for value in values if isinstance(value, Tensor)])
    if how == "norm":
        return vector_norm(stacked, dim=0)
    if how == "max":
        return stacked.amax(0)
    if how == "sum":
        return stacked.sum(0)
    return stacked.mean(0) if stacked.is_floating_point() else stacked.double().mean(0)
