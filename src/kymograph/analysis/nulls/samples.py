"""Errors and gradients of different images, paired at random: in the same way at every point of the stream."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kymograph import streams
from kymograph.analysis.credit import Pairs
from kymograph.probes.vectors import as_float64
from kymograph.shapes import Float, Int

PART = {"label": "images shuffled", "about": "errors and gradients of different images", "order": 4}
_CHUNK = 32


def draw(pairs: Sequence[Pairs], matrices: Sequence[Tensor], serving: Sequence[int], draws: int, seed: int) -> Tensor:
    """Returns the mean cosine at every point and draw, shape (points, draws); a draw is one permutation for all points.

    The gradients of an image at different points resemble each other, so the points' cosines vary together, and a mean
    over points has its true spread only if they are permuted together. The errors of all images that are whole at some
    point are permuted, and each point averages over the gradients that it has. The observed cosines are then those of
    the identity, so that the test is exact if errors are exchangeable given the gradients, missing ones included.
    """
    images, errors = _errors_by_image(pairs)
    return torch.stack(
        [
            _shuffled_cosines(
                pair.gradients,
                errors @ as_float64(matrices[index]).T,
                torch.searchsorted(images, pair.images).cpu(),
                draws,
                streams.generator(seed, "null", "samples"),  # every point starts it anew and sees the same permutations
            )
            for pair, index in zip(pairs, serving, strict=True)
        ]
    )


def _errors_by_image(pairs: Sequence[Pairs]) -> tuple[Int[Tensor, " images"], Float[Tensor, "images C"]]:
    """Returns the images that are whole at some point, increasing, and their errors, which all points share."""
    images = torch.cat([pair.images for pair in pairs]).unique()
    errors = pairs[0].errors.new_empty(len(images), pairs[0].errors.shape[1])
    for pair in pairs:
        errors[torch.searchsorted(images, pair.images)] = pair.errors
    return images, errors


def _shuffled_cosines(
    gradients: Float[Tensor, "n d"],
    credit: Float[Tensor, "images d"],
    own: Int[Tensor, " n"],
    draws: int,
    draw: torch.Generator,
) -> Float[Tensor, " draws"]:
    """Returns the mean cosine of the unit gradients with permuted credit, (draws,); ``own`` is the image of each."""
    credit = credit / torch.linalg.vector_norm(credit, dim=1, keepdim=True)
    table = gradients @ credit.T  # (n, images): cosine of gradient i with credit j
    rows = torch.arange(len(own), device=table.device)
    parts = []
    for start in range(0, draws, _CHUNK):
        orders = [torch.randperm(len(credit), generator=draw) for _ in range(start, min(start + _CHUNK, draws))]
        parts.append(table[rows, torch.stack(orders)[:, own].to(table.device)].mean(1))
    return torch.cat(parts)
