"""The numbers that a run logs, step by step: checked, buffered while they are on a device, and returned as series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kymograph._errors import KymographError
from kymograph._runs.record import RunSeries
from kymograph._runs.steps import EXACT, Step, checked_step
from kymograph._runs.storable import check_text, is_exact, shown

BLOCK = 512
"""How many values are buffered before they are converted to numbers: reading a tensor waits for its device."""
_BUFFERED = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
             torch.float16, torch.bfloat16, torch.float32, torch.float64}  # fmt: skip
"""The types of tensors that can be stacked on every device."""


class LoggedSeries:
    """Every number that a run logs, by name, as float64; what float64 cannot hold exactly is refused."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}

    def log(self, step: Step, values: Mapping[str, Any]) -> None:
        """Records numbers measured at a step: one each, or several by site (a mapping, or a vector).

        Raises, before any of them is recorded, if the step or a value cannot be stored.
        """
        if type(step) is not int or not -EXACT <= step <= EXACT:
            step = checked_step(step)
        ready = []
        for name, value in values.items():
            column = self._columns.get(name)
            if column is None or not column.accepts_unchecked(value):
                _check_name(name)
                sites, value = _with_sites(name, value)
                if column is None:
                    column = _Column(name, sites)
                elif sites != column.sites:
                    raise KymographError(f"{name} was logged with other sites before; log the same sites at every step")
            column.check_step(step)
            ready.append((column, value))
        for column, value in ready:
            self._columns[column.name] = column
            column.add(step, value)

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
            for step in np.asarray(saved["step"]).tolist():
                column.check_step(step)
                column.steps.append(step)
            column.blocks = [np.asarray(saved["value"], dtype=np.float64)]


class _Column:
    """One series: its steps, the values already converted to numbers, and those still waiting."""

    def __init__(self, name: str, sites: tuple[str, ...] | None) -> None:
        self.name, self.sites = name, sites
        self.steps: list[Step] = []
        self.fraction: float | None = None  # a step that is a float
        self.large: int | None = None  # a step that is an integer, but not exactly a float
        self.blocks: list[np.ndarray] = []
        self.waiting: list[Any] = []

    def accepts_unchecked(self, value: Any) -> bool:
        """Returns whether ``value`` is another plain number, which needs no further checks."""
        plain = type(value) is float or (type(value) is Tensor and not value.dim() and value.dtype.is_floating_point)
        return plain and self.sites is None

    def check_step(self, step: Step) -> None:
        """Raises if no single type can hold this step and the earlier ones exactly."""
        if type(step) is int and -EXACT <= step <= EXACT:
            return
        fraction, large = self.fraction, self.large
        if isinstance(step, float):
            fraction = step
        elif not is_exact(step):
            large = step
        if fraction is not None and large is not None:
            raise KymographError(
                f"{self.name} is logged at step {large} and at step {fraction}, which no single type holds exactly; "
                "log them as two series"
            )
        self.fraction, self.large = fraction, large

    def add(self, step: Step, value: Any) -> None:
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
        tensors = [value for value in self.waiting if isinstance(value, Tensor)]
        if len(tensors) == len(self.waiting) and len({(value.dtype, value.device) for value in tensors}) == 1:
            block = _numbers(torch.stack(tensors), self.name)
        else:
            numbers = [_numbers(value, self.name) if isinstance(value, Tensor) else value for value in self.waiting]
            block = np.array(numbers, dtype=np.float64)
        self.blocks.append(block.reshape(len(self.waiting), *(() if self.sites is None else (len(self.sites),))))
        self.waiting.clear()

    def series(self) -> RunSeries:
        self.settle()
        empty = np.empty((0,) if self.sites is None else (0, len(self.sites)))
        step = np.array(self.steps, dtype=np.int64 if self.fraction is None else np.float64)
        return RunSeries(step, np.concatenate(self.blocks or [empty]), self.sites)


def _check_name(name: Any) -> None:
    if not isinstance(name, str):
        raise KymographError(f"a series is called {shown(name)}; names are strings")
    check_text(name, "the name of a series")


def _with_sites(name: str, value: Any) -> tuple[tuple[str, ...] | None, Any]:
    """Returns the sites of a value, if it has several numbers, and the value in float64, or as a tensor on a device.

    Numbers on the CPU are copied at once: the caller may change an array in place at the next step.
    """
    if isinstance(value, Mapping):
        sites = tuple(map(str, value))
        for site in sites:
            check_text(site, f"a site of {name}")
        if len({*sites}) < len(sites):
            twice = next(site for site in sites if sites.count(site) > 1)
            raise KymographError(f"{name} has two sites called {twice!r}; give each site its own name")
        return sites, _together(list(value.values()), name)
    if isinstance(value, Tensor | np.ndarray) and tuple(value.shape) not in ((), (1,)):
        if value.ndim != 1:
            raise KymographError(f"{name} has {value.ndim} axes; log one number, or one per site")
        return tuple(map(str, range(len(value)))), _checked(value, name)
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return tuple(map(str, range(len(value)))), _together(list(value), name)
    return None, _one(value, name)


def _together(items: list[Any], name: str) -> Any:
    """Returns several single numbers as one vector: a tensor if all are on one device in one type, else an array."""
    checked = [_one(item, name) for item in items]
    tensors = [item for item in checked if isinstance(item, Tensor)]
    if tensors and len(tensors) == len(checked) and len({(item.dtype, item.device) for item in tensors}) == 1:
        return torch.stack(tensors)
    return np.array([_numbers(item, name) for item in checked], dtype=np.float64)


def _one(value: Any, name: str) -> Any:
    """Returns a single number as `_checked` does."""
    if isinstance(value, Tensor | np.ndarray):
        if tuple(value.shape) not in ((), (1,)):
            raise KymographError(f"a site of {name} has {math.prod(value.shape)} numbers; log one number per site")
        value = value.reshape(())
    return _checked(value, name)


def _checked(value: Any, name: str) -> Any:
    """Returns numbers as float64, or unread as a tensor if they are on a device; raises if they are not numbers."""
    if isinstance(value, Tensor) and not value.is_cpu and value.dtype in _BUFFERED:
        return value
    return _numbers(value, name)


def _numbers(value: Any, name: str) -> np.ndarray:
    """Returns a number, an array or a tensor as new float64 numbers of the same shape; raises if that changes one."""
    if isinstance(value, Tensor):
        if value.is_complex():
            raise KymographError(f"{name} is complex; log real numbers, e.g. its absolute value")
        whole = value.detach().cpu()
        array = (whole.to(torch.float64) if whole.dtype.is_floating_point else whole).numpy()
    elif isinstance(value, int):
        if not is_exact(value):
            raise _inexact(value, name)
        array = np.asarray(float(value))
    elif isinstance(value, float | np.generic | np.ndarray):
        array = np.asarray(value)
    else:
        raise KymographError(f"{name} is {shown(value)} ({type(value).__name__}); log numbers")
    if array.dtype.kind not in "biuf":
        raise KymographError(f"{name} is {shown(value)} ({array.dtype}); log numbers")
    numbers = array.astype(np.float64)
    if array.dtype.kind in "iu":
        for number in array[(array > EXACT) | (array < -EXACT)].tolist() if array.dtype.itemsize == 8 else ():
            if not is_exact(number):
                raise _inexact(number, name)
    elif array.dtype.itemsize > 8 and not np.array_equal(numbers, array, equal_nan=True):
        raise KymographError(f"{name} is {shown(value)}, which is not exactly a float64; round it first")
    return numbers


def _inexact(value: int, name: str) -> KymographError:
    return KymographError(f"{name} is {shown(value)}, which is not exactly a float64; log a float, or a difference")
