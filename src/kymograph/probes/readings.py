"""Readings of measured steps: kept on their device, moved to the CPU in blocks, put together as arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kymograph.probes.columns import put_together

Key = tuple[str, str]  # a quantity and a site
Number = Tensor | float
Row = dict[Key, Number]
Kind = tuple[torch.device, torch.dtype]
BLOCK = 64


class ReadingTable:
    """Rows of readings, one for each measured step; a reading is a tensor without dimensions, or a number.

    Tensors stay on their device until a block of rows is full, so that an accelerator is waited for once in a block.
    The tensors of one row are put into one that is there already: small tensors that stay would keep apart the memory
    that training uses again and again.
    """

    def __init__(self, block: int = BLOCK) -> None:
        self._size = block
        self._block: _Block | None = None
        self._columns: dict[Key, int] = {}
        self._done: list[tuple[list[int], np.ndarray]] = []  # by block: columns, and values (rows, columns)
        self.steps: list[int] = []

    def add(self, step: int, row: Row) -> None:
        """Adds the readings of ``step``."""
        keys, values = list(row), list(row.values())
        if self._block is None or self._block.keys != keys or not self._block.add(values):
            self.flush()
            self._block = _Block(keys, values, self._size)
            self._block.add(values)
        self.steps.append(step)
        if self._block.rows == self._size:
            self.flush()

    def flush(self) -> None:
        """Moves what is pending to the CPU."""
        block, self._block = self._block, None
        if block is None:
            return
        columns = [self._columns.setdefault(key, len(self._columns)) for key in block.keys]
        self._done.append((columns, block.values()))

    def keys(self) -> list[Key]:
        """Returns the quantities and sites that were read so far, in the order in which they were first read."""
        self.flush()
        return list(self._columns)

    def columns(self) -> dict[Key, tuple[np.ndarray, np.ndarray]]:
        """Returns under each key the values, (steps,), NaN where there is none, and where there is one."""
        self.flush()
        values = np.full((len(self.steps), len(self._columns)), np.nan)
        read = np.zeros(values.shape, dtype=bool)
        start = 0
        for columns, block in self._done:
            values[start : start + len(block), columns] = block
            read[start : start + len(block), columns] = True
            start += len(block)
        return {key: (values[:, place], read[:, place]) for key, place in self._columns.items()}

    def state(self) -> dict[str, Any]:
        """Returns all readings so far, for a run that may be killed."""
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
        """Goes on from what `state` returned."""
        self._block = None
        self.steps = [int(step) for step in state["steps"]]
        self._columns = {(name, site): place for place, (name, site) in enumerate(state["keys"])}
        self._done = [(list(one["columns"]), np.asarray(one["values"])) for one in state["blocks"]]


class _Block:
    """Some rows of readings with the same keys, whose tensors are of the same types on the same devices."""

    def __init__(self, keys: list[Key], values: list[Number], size: int) -> None:
        self.keys, self.rows = keys, 0
        kinds = [(value.device, value.dtype) if isinstance(value, Tensor) else None for value in values]
        self._numbers = [place for place, kind in enumerate(kinds) if kind is None]
        self._table = np.full((size, len(keys)), np.nan)
        self._tensors: list[tuple[list[int], Tensor, tuple[Tensor, ...]]] = []
        for kind in dict.fromkeys(kind for kind in kinds if kind is not None):
            places = [place for place, one in enumerate(kinds) if one == kind]
            room = torch.empty(size, len(places), device=kind[0], dtype=kind[1])
            self._tensors.append((places, room, room.unbind(0)))

    def add(self, values: list[Number]) -> bool:
        """Adds the readings of one step; says no if they are of other types or on other devices than the first."""
        try:
            if not self._tensors:
                self._table[self.rows] = values  # type: ignore[assignment]
            else:
                for places, _, rooms in self._tensors:
                    torch.stack([values[place] for place in places], out=rooms[self.rows])  # type: ignore[misc]
                for place in self._numbers:
                    self._table[self.rows, place] = float(values[place])
        except (RuntimeError, TypeError, ValueError):
            if self.rows == 0:
                raise  # a reading that is no number at all
            return False
        self.rows += 1
        return True

    def values(self) -> np.ndarray:
        """Returns the readings (rows, keys) in float64."""
        for places, room, _ in self._tensors:
            self._table[: self.rows, places] = room[: self.rows].cpu().double().numpy()
        return self._table[: self.rows]


def combine(values: Sequence[Number], how: str) -> Number:
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
    if how == "sum":
        return stacked.sum(0)
    return stacked.mean(0) if stacked.is_floating_point() else stacked.double().mean(0)
