"""Chooses the device and lists the accelerators."""

from __future__ import annotations

import gc
import platform
import re
import sys
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError


def import_torch() -> Any:
    """Returns torch, imported with garbage collection off: the import allocates much and frees nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        import torch
    finally:
        if enabled:
            gc.enable()
    return torch


def check_device(device: str) -> None:
    """Raises if ``device`` is not a valid device name; does not import torch."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d+)?", device):
        raise KymographError(f"there is no device {device!r}; use auto, cpu, cuda, cuda:N or mps")


def choose_device(device: str, *, float64: bool = False) -> str:
    """Returns the torch device for ``auto``, ``cpu``, ``cuda``, ``cuda:N`` or ``mps``; raises if it is not available.

    ``float64``: whether the device must support float64, which mps does not.
    """
    check_device(device)
    torch = import_torch()
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        return next(name for name in available if available[name] and not (float64 and name == "mps"))
    kind, _, number = device.partition(":")
    if not available[kind] or (kind == "cuda" and number and int(number) >= torch.cuda.device_count()):
        raise KymographError(f"this machine has no {device!r} device; use --device cpu")
    if float64 and kind == "mps":
        raise KymographError("mps does not compute in float64; use --device cpu")
    return device


def accelerators(device: str) -> list[str]:
    """Returns the accelerators that ``device`` refers to, e.g. ``["cuda:0", "cuda:1"]``; empty for the CPU.

    Several processes on one accelerator compete for its memory and are slower than one, so a sweep starts one worker
    for each. On a machine without signs of an accelerator torch is not imported, which takes a second.
    """
    check_device(device)
    if device == "cpu" or (device == "auto" and not _signs_of_an_accelerator()):
        return []
    chosen = choose_device(device)
    if chosen == "cuda":
        return [f"cuda:{number}" for number in range(import_torch().cuda.device_count())]
    return [] if chosen == "cpu" else [chosen]


def _signs_of_an_accelerator() -> bool:
    """Returns whether the machine has an NVIDIA or AMD driver, or is a Mac with its own; True where unknown."""
    if sys.platform == "linux":
        return any(Path(path).exists() for path in ("/dev/nvidiactl", "/dev/nvidia0", "/dev/kfd", "/dev/dxg"))
    return not (sys.platform == "darwin" and platform.machine() != "arm64")
