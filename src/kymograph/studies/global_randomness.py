"""The global generators of torch, numpy and Python: seeded for each run, and restored afterwards.

User code draws from them: `nn` constructors, dropout, shuffling data loaders. Seeded per run, its numbers are the same
whatever ran before.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from kymograph.streams import stream_seed


def get_state() -> dict[str, Any]:
    """Returns the states of all global generators, in a form that a resume state can hold."""
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    version, numbers, gauss = random.getstate()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    return {
        "torch": torch.get_rng_state(),
        "cuda": devices,
        "numpy": {"kind": kind, "keys": keys, "position": position, "has_gauss": has_gauss, "cached": cached},
        "python": {"version": version, "numbers": list(numbers), "gauss": gauss},
    }


def set_state(state: dict[str, Any]) -> None:
    """Restores a state that `get_state` returned."""
    torch.set_rng_state(state["torch"].to(torch.uint8))
    if state["cuda"]:
        torch.cuda.set_rng_state_all(list(state["cuda"]))
    facts = state["numpy"]
    np.random.set_state(  # noqa: NPY002
        (facts["kind"], np.asarray(facts["keys"]), facts["position"], facts["has_gauss"], facts["cached"])
    )
    facts = state["python"]
    random.setstate((facts["version"], tuple(facts["numbers"]), facts["gauss"]))


def set_seed(seed: int, *names: str) -> None:
    """Seeds all global generators from the stream called ``names`` at ``seed``."""
    mixed = stream_seed(seed, *names)
    torch.manual_seed(mixed)
    np.random.seed(mixed % 2**32)  # noqa: NPY002 - users' code draws from it
    random.seed(mixed)


@contextlib.contextmanager
def seeded(seed: int, *names: str) -> Iterator[None]:
    """Seeds all global generators for a ``with`` block, and restores them afterwards."""
    before = get_state()
    set_seed(seed, *names)
    try:
        yield
    finally:
        set_state(before)


def same_state(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Returns whether nothing was drawn from the CPU generators between two states."""
    return (
        torch.equal(one["torch"], other["torch"])
        and one["python"]["numbers"] == other["python"]["numbers"]
        and one["numpy"]["position"] == other["numpy"]["position"]
        and np.array_equal(one["numpy"]["keys"], other["numpy"]["keys"])
    )
