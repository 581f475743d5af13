"""Random directions, drawn independently for every image and matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from kymograph import streams
from kymograph.analysis.credit import Pairs
from kymograph.shapes import Float

PART = {"label": "random directions", "about": "random directions, independent for every image and matrix", "order": 5}
_CHUNK = 32


def draw(pairs: Sequence[Pairs], matrices: Sequence[Tensor], serving: Sequence[int], draws: int, seed: int) -> Tensor:
    """Returns the mean cosine at every point and draw, shape (points, draws).

    An image's credit is the same vector at all points of one matrix, and so is the random direction that replaces it.
    """
    rows: dict[int, Tensor] = {}
    for index in dict.fromkeys(serving):
        points = [point for point, served in enumerate(serving) if served == index]
        generator = np.random.default_rng(streams.stream_seed(seed, "null", "directions", str(index)))
        rows.update(zip(points, _direction_cosines([pairs[point] for point in points], draws, generator), strict=True))
    return torch.stack([rows[point] for point in range(len(serving))])


def _direction_cosines(
    pairs: Sequence[Pairs], draws: int, draw: np.random.Generator
) -> Float[Tensor, "{len(pairs)} draws"]:
    """Returns the mean cosines of the gradients at some points with one random direction per image, (points, draws).

    Only the part of a uniform direction in the span of an image's gradients matters. Its k coordinates there are
    distributed as z / sqrt(|z|^2 + chi^2_{d - k}) with z standard normal, and are drawn from there instead of drawing
    all d. With one point the cosine is that coordinate, whose law is sign * sqrt(Beta(1/2, (d - 1)/2)).
    """
    coordinates = _coordinates(_by_image(pairs)).cpu()
    n, points, k = coordinates.shape
    outside = pairs[0].gradients.shape[1] - k
    weights = coordinates.transpose(1, 2).reshape(n * k, points)
    sums = []
    for start in range(0, draws, _CHUNK):
        some = min(_CHUNK, draws - start)
        inside = draw.standard_normal((some, n, k))
        squares = (inside**2).sum(2) + (draw.chisquare(outside, (some, n)) if outside else 0.0)
        sums.append(torch.from_numpy(inside / np.sqrt(squares)[:, :, None]).reshape(some, n * k) @ weights)
    counts = torch.tensor([len(pair.images) for pair in pairs])
    return (torch.cat(sums) / counts).T


def _by_image(pairs: Sequence[Pairs]) -> Float[Tensor, "images {len(pairs)} d"]:
    """Returns the unit gradients of every image at every point; 0 where an image has none, which adds no cosine."""
    images = torch.cat([pair.images for pair in pairs]).unique()
    gradients = pairs[0].gradients.new_zeros(len(images), len(pairs), pairs[0].gradients.shape[1])
    for point, pair in enumerate(pairs):
        gradients[torch.searchsorted(images, pair.images), point] = pair.gradients
    return gradients


def _coordinates(gradients: Float[Tensor, "n points d"]) -> Float[Tensor, "n points k"]:
    """Returns each image's gradients in an orthonormal basis of k = min(points, d) vectors that spans them.

    With more dimensions than points, these are the rows of the symmetric root of the gradients' Gram matrix. Unlike a
    Cholesky factor it exists for parallel gradients, and unlike eigenvectors it is unique, whatever the machine.
    """
    _, points, d = gradients.shape
    if d <= points:
        return gradients
    values, vectors = torch.linalg.eigh((gradients @ gradients.mT).cpu())
    return (vectors * values.clamp(min=0.0).sqrt()[:, None, :]) @ vectors.mT
