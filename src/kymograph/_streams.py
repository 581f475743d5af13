"""Named random streams: random numbers come from (seed, name), never from a global generator.

Two arms that ask for the same name at the same seed get the same numbers, whatever else each of them draws; this is
what pairs them. A stream that one arm adds cannot shift another's numbers.

    >>> stream_seed(42, "order") == stream_seed(42, "order")
    True
    >>> stream_seed(42, "order") == stream_seed(42, "crop")
    False
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from kymograph._errors import KymographError

if TYPE_CHECKING:
    import torch


MAX_SEED = 2**63 - 1
MOST_SEEDS = 10_000
"""The length of the fixed lists of seeds."""
_FIRST_SEEDS = (42, 123, 456)
_FIRST_TUNING_SEED = 100_000  # the fixed seeds are smaller


def stream_seed(seed: int, *names: str) -> int:
    """Returns the 63-bit seed of the stream called ``names`` under ``seed``."""
    text = "\x1f".join((str(int(seed)), *names))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") & MAX_SEED


def generator(seed: int, *names: str) -> torch.Generator:
    """Returns a fresh CPU generator for the stream called ``names`` under ``seed``.

    >>> order = torch.randperm(1000, generator=ky.generator(42, "order"))
    >>> torch.equal(order, torch.randperm(1000, generator=ky.generator(42, "order")))
    True

    Streams with other names are independent, so that drawing more from one never shifts another.
    """
    import torch

    return torch.Generator().manual_seed(stream_seed(seed, *names))


def forked_generators(tensors: Iterable[torch.Tensor]) -> AbstractContextManager[None]:
    """Returns a context manager that restores torch's global generators on exit, those of the devices included."""
    import torch

    accelerators = [device for device in {one.device for one in tensors} if device.type not in ("cpu", "meta")]
    kind = accelerators[0].type if accelerators else "cuda"
    started = getattr(getattr(torch, kind), "is_initialized", lambda: True)  # an uninitialised device has drawn nothing
    return torch.random.fork_rng(devices=accelerators if started() else [], device_type=kind)


def fixed_seeds(count: int) -> tuple[int, ...]:
    """Returns the first ``count`` seeds of the list that every study shares; it starts 42, 123, 456.

    >>> ky.fixed_seeds(3)
    (42, 123, 456)
    """
    return _drawn(count, _FIRST_SEEDS, "fixed seeds", 0, 100_000)


def fixed_tuning_seeds(count: int) -> tuple[int, ...]:
    """Returns the first ``count`` seeds of the fixed tuning list, which has none in common with `fixed_seeds`.

    >>> fixed_tuning_seeds(2)
    (282185, 373887)
    """
    return _drawn(count, (), "tuning seeds", _FIRST_TUNING_SEED, 900_000)


def _drawn(count: int, first: Sequence[int], stream: str, start: int, among: int) -> tuple[int, ...]:
    """Returns ``count`` distinct seeds: ``first``, then seeds drawn from a stream."""
    if count > MOST_SEEDS:
        raise KymographError(f"the fixed list has {MOST_SEEDS:,} seeds, not {count}; list the seeds yourself")
    seeds = dict.fromkeys(first)
    draw = 0
    while len(seeds) < count:
        seeds[start + stream_seed(0, stream, str(draw)) % among] = None
        draw += 1
    return tuple(seeds)[:count]
