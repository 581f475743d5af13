"""Guesses inputs that a network accepts from its first layer, for when shapes are needed and no data is given."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.models.blocks import evaluation_mode

SIZES = (8, 16, 28, 32, 64, 96, 128, 224)
"""Image sides and sequence lengths, tried in this order."""
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def guess_example(net: nn.Module, samples: int = 2, draw: torch.Generator | None = None) -> Tensor:
    """Returns inputs (samples, ...) that ``net`` runs on; raises if none of those tried is accepted.

        guess_example(nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 3))).shape  # (2, 8)

    They are standard normal, or indices for an embedding, drawn from ``draw``; without it, zeros.
    """
    for shape, categories in _shapes(net, samples):
        like = next((own for own in net.parameters() if own.is_floating_point()), torch.empty(0))
        if categories:
            x = torch.randint(categories, shape, generator=draw) if draw else torch.zeros(shape, dtype=torch.int64)
        else:
            x = torch.randn(shape, generator=draw).to(like.dtype) if draw else torch.zeros(shape, dtype=like.dtype)
        x = x.to(like.device)
        try:
            with evaluation_mode(net), torch.no_grad():
                net(x)
        except (RuntimeError, ValueError, IndexError, TypeError):
            continue
        return x
    raise KymographError(f"the inputs of {type(net).__name__} cannot be guessed; give an example, such as two samples")


def _shapes(net: nn.Module, samples: int) -> Iterator[tuple[tuple[int, ...], int]]:
    """Yields shapes to try, each with the number of categories, or 0 for real-valued inputs."""
    for layer in net.modules():
        if isinstance(layer, nn.Embedding):
            yield from (((samples, size), layer.num_embeddings) for size in SIZES)
            yield (samples,), layer.num_embeddings
            return
        if isinstance(layer, CONVOLUTIONS):
            axes = layer.weight.dim() - 2
            yield from (((samples, layer.in_channels, *[size] * axes), 0) for size in SIZES)
            return
        if isinstance(layer, nn.Linear):
            yield (samples, layer.in_features), 0
            yield from (((samples, size, layer.in_features), 0) for size in SIZES)
            for channels in (1, 3):  # an image that the network flattens
                side = round((layer.in_features / channels) ** 0.5)
                yield (samples, channels, side, side), 0
            return
