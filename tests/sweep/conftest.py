"""A machine with as many cards as a test says."""

from __future__ import annotations

import os

import pytest
import torch

from kymograph._sweep import compute

CORES = 64


class Machine:
    """A machine with as many cards as a test says."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        patch.setattr(os, "cpu_count", lambda: CORES)

    def has(self, cuda: int = 0, mps: bool = False) -> None:
        self._patch.setattr(compute, "_signs_of_an_accelerator", lambda: bool(cuda or mps))
        self._patch.setattr(torch.cuda, "is_available", lambda: cuda > 0)
        self._patch.setattr(torch.cuda, "device_count", lambda: cuda)
        self._patch.setattr(torch.backends.mps, "is_available", lambda: mps)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)
