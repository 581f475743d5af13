"""Random numbers that a rule redraws with every update; a resumed run continues with the same ones."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from kymograph import streams
from kymograph.errors import KymographError
from kymograph.rules.base import Setup


class UpdateStream(nn.Module):
    """A seed and the number of updates so far, as a buffer: between two updates every draw is the same.

    Args:
        setup: holds the generator that the seed is drawn from.
        title: the rule's name in error messages.
    """

    state: Tensor

    def __init__(self, setup: Setup, title: str) -> None:
        super().__init__()
        if setup.generator is None:
            raise KymographError(f"{title} draws random numbers with every update; give make(...) a generator")
        seed = torch.randint(streams.MAX_SEED, (), generator=setup.generator)
        self.register_buffer("state", torch.stack([seed, torch.zeros_like(seed)]))

    def normal(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """Returns this update's normal numbers of the stream called ``name``, with ``like``'s device and dtype."""
        seed, update = self.state.tolist()
        values = torch.randn(shape or like.shape, generator=streams.generator(seed, name, str(update)))
        return values.to(like.device, like.dtype)

    def advance(self) -> None:
        """Moves on to the numbers of the next update."""
        self.state[1] += 1
