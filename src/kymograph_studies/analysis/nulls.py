"""Nulls of a credit cosine: what the cosine is when there is nothing to find."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from kymograph import _streams as streams
from kymograph._shapes import Float, Int
from kymograph.quantities import as_float64
from kymograph_studies.analysis.credit import Pairs

PARTS = {
    "fresh": {
        "attribute": "draw_fresh",
        "label": "fresh matrices",
        "about": "fresh matrices from the same distribution",
        "order": 1,
    },
    "rows": {
        "attribute": "draw_rows",
        "label": "rows permuted",
        "about": "the training matrix with its rows (neurons) permuted",
        "order": 2,
    },
    "columns": {
        "attribute": "draw_columns",
        "label": "classes permuted",
        "about": "the training matrix with its columns (classes) permuted",
        "order": 3,
    },
    "samples": {
        "attribute": "draw_samples",
        "label": "images shuffled",
        "about": "errors and gradients of different images",
        "order": 4,
    },
    "directions": {
        "attribute": "draw_directions",
        "label": "random directions",
        "about": "random directions, independent for every image and matrix",
        "order": 5,
    },
}


_CHUNK = 32
DrawMatrices = Callable[[Tensor, int, torch.Generator], Tensor]


def cosines_of_drawn(
    name: str,
    draw_matrices: DrawMatrices,
    pairs: Sequence[Pairs],
    matrices: Sequence[Tensor],
    serving: Sequence[int],
    draws: int,
    seed: int,
) -> Tensor:
    """Returns the mean cosine at every point with each of ``draws`` matrices, shape (points, draws).

    The matrices are drawn on the CPU, from the stream of their null and index, so that every device sees the same
    ones, and then moved to the device of the gradients.
    """
    rows: list[Tensor] = []
    stack = torch.empty(0)
    for point, (pair, index) in enumerate(zip(pairs, serving, strict=True)):
        if point == 0 or serving[point - 1] != index:
            stack = draw_matrices(matrices[index].cpu(), draws, streams.generator(seed, "null", name, str(index)))
            stack = stack.to(pair.errors.device)
        rows.append(pair.mean_cosines(stack))
    return torch.stack(rows)


def _fresh_matrices(matrix: Tensor, draws: int, draw: torch.Generator) -> Tensor:
    """Returns ``draws`` Gaussian matrices (draws, width, classes), in float32."""
    width, classes = matrix.shape
    return torch.randn(draws, width, classes, generator=draw) / math.sqrt(classes)


def _permuted_rows(matrix: Tensor, draws: int, draw: torch.Generator) -> Tensor:
    """Returns ``draws`` copies of the matrix (draws, width, classes) with permuted rows, in float32."""
    order = torch.rand(draws, len(matrix), generator=draw).argsort(1)
    return matrix.float()[order]


def _permuted_columns(matrix: Tensor, draws: int, draw: torch.Generator) -> Tensor:
    """Returns ``draws`` copies of the matrix (draws, width, classes) with permuted columns, in float32."""
    return _permuted_rows(matrix.T, draws, draw).transpose(1, 2)


draw_fresh = functools.partial(cosines_of_drawn, "fresh", _fresh_matrices)
draw_rows = functools.partial(cosines_of_drawn, "rows", _permuted_rows)
draw_columns = functools.partial(cosines_of_drawn, "columns", _permuted_columns)


def draw_samples(
    pairs: Sequence[Pairs], matrices: Sequence[Tensor], serving: Sequence[int], draws: int, seed: int
) -> Tensor:
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
    positions: Int[Tensor, " n"],
    draws: int,
    draw: torch.Generator,
) -> Float[Tensor, " draws"]:
    """Returns the mean cosine of the unit gradients with permuted credit, (draws,); ``positions`` are their images."""
    credit = credit / torch.linalg.vector_norm(credit, dim=1, keepdim=True)
    table = gradients @ credit.T  # (n, images): cosine of gradient i with credit j
    rows = torch.arange(len(positions), device=table.device)
    parts = []
    for start in range(0, draws, _CHUNK):
        orders = [torch.randperm(len(credit), generator=draw) for _ in range(start, min(start + _CHUNK, draws))]
        parts.append(table[rows, torch.stack(orders)[:, positions].to(table.device)].mean(1))
    return torch.cat(parts)


def draw_directions(
    pairs: Sequence[Pairs], matrices: Sequence[Tensor], serving: Sequence[int], draws: int, seed: int
) -> Tensor:
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
    images = torch.cat([pair.images for pair in pairs]).unique()
    # 0 where an image has no gradient, which adds no cosine.
    gradients = pairs[0].gradients.new_zeros(len(images), len(pairs), pairs[0].gradients.shape[1])
    for point, pair in enumerate(pairs):
        gradients[torch.searchsorted(images, pair.images), point] = pair.gradients
    coordinates = _coordinates(gradients).cpu()
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


def _coordinates(gradients: Float[Tensor, "n points d"]) -> Float[Tensor, "n points k"]:
    """Returns each image's gradients in an orthonormal basis of k = min(points, d) vectors that spans them.

    With more dimensions than points, these are the rows of the symmetric root of the gradients' Gram matrix. Unlike a
    Cholesky factor it exists for parallel gradients, and unlike eigenvectors it is unique, whatever the machine.
    """
    _, points, d = gradients.shape
    if d <= points:
        return gradients
    values, vectors = torch.linalg.eigh((gradients @ gradients.mT).cpu())
    root: Tensor = (vectors * values.clamp(min=0.0).sqrt()[:, None, :]) @ vectors.mT
    return root
