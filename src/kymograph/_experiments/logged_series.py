"""The numbers that a run logs, step by step: checked, buffered while they are on a device, and returned as series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kymograph._errors import KymographError
from kymograph._runs.record import RunSeries

BLOCK = 512
"""How many values are buffered before they are converted to numbers: reading a tensor waits for its device."""


class LoggedSeries:
    """Every number that a run logs, by name."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        """Records numbers measured at a step: one each, or several by site (a mapping, or a vector)."""
        for name, value in values.items():
            column = self._columns.get(name)
            if column is not None and column.accepts_unchecked(step, value):
                column.add(step, value)
                continue
            sites, whole = _with_sites(name, value)
            if column is None:
                column = self._columns[name] = _Column(name, sites)
            if sites != column.sites:
                raise KymographError(f"{name} was logged with other sites before; log the same sites at every step")
            if column.steps and column.steps[-1] >= step:
                again = "twice at" if column.steps[-1] == step else "out of order at"
                raise KymographError(f"{name} was logged {again} step {step}; log a series once per step")
            column.add(step, whole)

    def series(self) -> dict[str, RunSeries]:
        """Returns every series."""
        return {name: column.series() for name, column in self._columns.items()}

    def latest(self, most: int = 3) -> dict[str, float]:
        """Returns the last value of at most ``most`` series with one number per step, in the order of logging."""
        plain = [column for column in self._columns.values() if column.sites is None and column.steps][:most]
        return {column.name: float(column.waiting[-1] if column.waiting else column.blocks[-1][-1]) for column in plain}

    def state(self) -> dict[str, Any]:
        """Returns everything logged so far, for the resume state."""
        return {
            name: {
                "step": series.step,
                "value": series.value,
                "sites": None if series.sites is None else list(series.sites),
            }
            for name, series in self.series().items()
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        self._columns.clear()
        for name, saved in state.items():
            sites = None if saved["sites"] is None else tuple(saved["sites"])
            column = self._columns[name] = _Column(name, sites)
            column.steps = [int(step) for step in saved["step"]]
            column.blocks = [np.asarray(saved["value"], dtype=np.float64)]


class _Column:
    """One series: its steps, the values already converted to numbers, and those still waiting."""

    def __init__(self, name: str, sites: tuple[str, ...] | None) -> None:
        self.name, self.sites = name, sites
        self.steps: list[int] = []
        self.blocks: list[np.ndarray] = []
        self.waiting: list[Any] = []

    def accepts_unchecked(self, step: int, value: Any) -> bool:
        """Returns whether ``value`` is another plain number at a later step, which needs no further checks."""
        plain = type(value) is float or (type(value) is Tensor and not value.dim())
        return plain and self.sites is None and (not self.steps or self.steps[-1] < step)

    def add(self, step: int, value: Any) -> None:
        self.steps.append(step)
        if isinstance(value, Tensor):  # on the CPU a number costs less than a copy of the tensor
            value = value.item() if value.is_cpu and not value.dim() else value.detach().clone()
        self.waiting.append(value)
        if len(self.waiting) >= BLOCK:
            self.settle()

    def settle(self) -> None:
        """Converts the waiting values to numbers."""
        if not self.waiting:
            return
        if all(isinstance(value, Tensor) for value in self.waiting):
            block = torch.stack([value.to(torch.float64) for value in self.waiting]).cpu().numpy()
        else:
            block = np.array([np.asarray(_number(value), dtype=np.float64) for value in self.waiting])
        self.blocks.append(block.reshape(len(self.waiting), *(() if self.sites is None else (len(self.sites),))))
        self.waiting.clear()

    def series(self) -> RunSeries:
        self.settle()
        empty = np.empty((0,) if self.sites is None else (0, len(self.sites)))
        return RunSeries(np.array(self.steps), np.concatenate(self.blocks or [empty]), self.sites)


def _with_sites(name: str, value: Any) -> tuple[tuple[str, ...] | None, Any]:
    """Returns the sites of a value, if it has several numbers, and the value as one number or one vector."""
    if isinstance(value, Mapping):
        items = list(value.values())
        if items and all(isinstance(item, Tensor) for item in items):
            return tuple(map(str, value)), torch.stack([item.reshape(()) for item in items])
        return tuple(map(str, value)), [_number(item) for item in items]
    if isinstance(value, Tensor | np.ndarray) and tuple(value.shape) not in ((), (1,)):
        if value.ndim != 1:
            raise KymographError(f"{name} has {value.ndim} axes; log one number, or one per site")
        return tuple(map(str, range(len(value)))), value
    if isinstance(value, Sequence) and not isinstance(value, str):
        return tuple(map(str, range(len(value)))), [_number(item) for item in value]
    if isinstance(value, Tensor | np.ndarray):
        return None, value.reshape(())
    return None, _number(value, name)


def _number(value: Any, name: str = "a logged value") -> Any:
    if isinstance(value, Tensor):
        return value.detach().cpu().to(torch.float64).numpy()
    if isinstance(value, bool | int | float | np.generic | np.ndarray | list):
        return value
    raise KymographError(f"{name} is a {type(value).__name__}; log numbers")
