"""Readings of measured steps: kept on their device, moved to the CPU in blocks, put together as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

Key = tuple[str, str]  # a quantity and a site
Number = Tensor | float
BLOCK = 64


@dataclass(frozen=True)
class QuantityColumns:
    """One quantity: ``value[i]`` was taken at ``step[i]``; a second axis runs over ``sites``, if there are any."""

    step: np.ndarray  # (steps,)
    value: np.ndarray  # (steps,) or (steps, sites)
    sites: tuple[str, ...] | None


class ReadingTable:
    """Rows of readings, one for each measured step; a reading is a tensor without dimensions, or a number.

    Tensors stay where they are until a block of rows is full, so that an accelerator is waited for once in a block.
    """

    def __init__(self, block: int = BLOCK) -> None:
        self._block = block
        self._pending: list[Mapping[Key, Number]] = []
        self._columns: dict[Key, int] = {}
        self._done: list[tuple[np.ndarray, np.ndarray]] = []  # values and which of them were read, by block
        self.steps: list[int] = []

    def add(self, step: int, row: Mapping[Key, Number]) -> None:
        """Adds the readings of ``step``."""
        self.steps.append(step)
        self._pending.append(row)
        if len(self._pending) >= self._block:
            self.flush()

    def flush(self) -> None:
        """Moves what is pending to the CPU."""
        if not self._pending:
            return
        columns = self._columns
        for row in self._pending:
            for key in row:
                if key not in columns:
                    columns[key] = len(columns)
        values = np.full((len(self._pending), len(columns)), np.nan)
        read = np.zeros(values.shape, dtype=bool)
        groups: dict[tuple[torch.device, torch.dtype], tuple[list[Tensor], list[int], list[int]]] = {}
        for index, row in enumerate(self._pending):
            for key, value in row.items():
                column = columns[key]
                if isinstance(value, Tensor):
                    kind = value.device, value.dtype
                    if kind not in groups:
                        groups[kind] = [], [], []
                    tensors, rows, places = groups[kind]
                    tensors.append(value)
                    rows.append(index)
                    places.append(column)
                else:
                    values[index, column] = value
                    read[index, column] = True
        for tensors, rows, places in groups.values():
            values[rows, places] = torch.stack(tensors).cpu().double().numpy()
            read[rows, places] = True
        self._done.append((values, read))
        self._pending = []

    def keys(self) -> list[Key]:
        """Returns the quantities and sites that were read so far, in the order in which they were first read."""
        self.flush()
        return list(self._columns)

    def column(self, key: Key) -> tuple[np.ndarray, np.ndarray]:
        """Returns the values under ``key``, (steps,), NaN where there is none, and where there is one."""
        self.flush()
        values = np.full(len(self.steps), np.nan)
        read = np.zeros(len(self.steps), dtype=bool)
        place, start = self._columns.get(key, -1), 0
        for block, present in self._done:
            if 0 <= place < block.shape[1]:
                values[start : start + len(block)] = block[:, place]
                read[start : start + len(block)] = present[:, place]
            start += len(block)
        return values, read


def put_together(columns: Sequence[tuple[np.ndarray, np.ndarray]], how: str) -> np.ndarray:
    """Returns one value (steps,) from several readings of one layer; NaN where there is none of them.

    A reading that is itself NaN makes the value NaN; one that was not taken is left out.

    >>> here, gone = np.array([True]), np.array([False])
    >>> put_together([(np.array([3.0]), here), (np.array([4.0]), here), (np.array([np.nan]), gone)], "norm")
    array([5.])
    """
    values = np.stack([value for value, _ in columns])
    read = np.stack([present for _, present in columns])
    if how == "norm":
        # hypot neither overflows nor underflows where squares would
        found = np.hypot.reduce(np.where(read, values, 0.0), axis=0)
    elif how == "max":
        found = np.max(np.where(read, values, -np.inf), axis=0)
    else:
        found = np.sum(np.where(read, values, 0.0), axis=0)
        if how == "mean":
            found = found / np.maximum(read.sum(0), 1)
    return np.where(read.any(0), found, np.nan)


def combine(values: Sequence[Tensor | float], how: str) -> Tensor | float:
    """Returns one reading from those of several calls of a layer, on their device."""
    if not isinstance(values[0], Tensor):
        numbers = [float(value) for value in values]
        found = put_together([(np.array([number]), np.array([True])) for number in numbers], how)
        return float(found[0])
    stacked = torch.stack([value for value in values if isinstance(value, Tensor)])
    if how == "norm":
        return torch.linalg.vector_norm(stacked, dim=0)
    if how == "max":
        return stacked.amax(0)
    return stacked.sum(0) if how == "sum" else stacked.to(torch.float32 if not stacked.is_floating_point() else stacked.dtype).mean(0)
