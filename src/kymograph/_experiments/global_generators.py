"""The global generators of torch, numpy and Python, from which user code draws: seeded, saved and restored.

Our own code draws from named streams (`kymograph._streams`) and never from these.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from kymograph._streams import stream_seed


@contextlib.contextmanager
def seeded(seed: int, *names: str) -> Iterator[None]:
    """Seeds the global generators of torch, numpy and Python for a ``with`` block, and restores them afterwards.

    User code draws from them: `nn` constructors, dropout, shuffling data loaders. Seeded per run, its numbers are the
    same whatever ran before.
    """
    before = global_state()
    mixed = stream_seed(seed, *names)
    torch.manual_seed(mixed)
    np.random.seed(mixed % 2**32)  # noqa: NPY002
    random.seed(mixed)
    try:
        yield
    finally:
        restore_global_state(before)


def global_state() -> dict[str, Any]:
    """Returns the states of all global generators, in a form that a resume state can hold."""
    kind, keys, position, has_gauss, cached = np.random.get_state(legacy=True)  # noqa: NPY002
    version, numbers, gauss = random.getstate()
    started = torch.cuda.is_available() and torch.cuda.is_initialized()
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if started else [],
        "numpy": {"kind": kind, "keys": keys, "position": position, "has_gauss": has_gauss, "cached": cached},
        "python": {"version": version, "numbers": list(numbers), "gauss": gauss},
    }


def restore_global_state(state: dict[str, Any]) -> None:
    """Restores a state that `global_state` returned."""
    torch.set_rng_state(state["torch"].to(torch.uint8))
    if state["cuda"]:
        torch.cuda.set_rng_state_all(list(state["cuda"]))
    numpy, python = state["numpy"], state["python"]
    np.random.set_state(  # noqa: NPY002
        (numpy["kind"], np.asarray(numpy["keys"]), numpy["position"], numpy["has_gauss"], numpy["cached"])
    )
    random.setstate((python["version"], tuple(python["numbers"]), python["gauss"]))


def nothing_drawn(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Returns whether nothing was drawn from the CPU generators between two states."""
    return (
        torch.equal(before["torch"], after["torch"])
        and before["python"]["numbers"] == after["python"]["numbers"]
        and before["numpy"]["position"] == after["numpy"]["position"]
        and np.array_equal(before["numpy"]["keys"], after["numpy"]["keys"])
    )
