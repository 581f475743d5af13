"""Worlds with nothing to find: errors, gradients and matrices that know nothing of each other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from kymograph._statistics.p_values import monte_carlo_p
from kymograph_studies.analysis.credit import Pairs

SERVING = (0, 1, 2, 3, 3)
"""As in a network of four blocks: the last matrix serves the last two points."""
ONE_MATRIX = (0, 0, 0, 0, 0)
LEVEL = 0.05
DRAWS = 99
Null = Callable[[Sequence[Pairs], Sequence[Tensor], Sequence[int], int, int], Tensor]


@dataclass(frozen=True)
class StudyEvidence:
    """Errors and gradients of one set of images, and the matrices that serve the points."""

    errors: Tensor  # (n, C)
    gradients: Tensor  # (points, n, d)
    matrices: list[Tensor]  # of (d, C)
    serving: Sequence[int]

    @functools.cached_property
    def pairs(self) -> list[Pairs]:
        """The errors and gradients of every point."""
        return [Pairs.of(self.errors, gradients) for gradients in self.gradients]

    def observed(self) -> Tensor:
        """Returns the mean cosine at every point, (points,), with the matrices of this world."""
        return torch.stack(
            [
                pair.mean_cosines(self.matrices[index][None])[0]
                for pair, index in zip(self.pairs, self.serving, strict=True)
            ]
        )

    def drawn(self, null: Null, draws: int, seed: int) -> Tensor:
        """Returns the draws of a null at every point, (points, draws)."""
        return null(self.pairs, self.matrices, self.serving, draws, seed)


def worlds(count: int, serving: Sequence[int] = SERVING, lost: float = 0.0, seed: int = 0) -> Iterator[StudyEvidence]:
    """Yields worlds of 48 images and 16 dimensions whose gradients change little from point to point.

    Args:
        count: how many worlds.
        serving: the matrix of each point.
        lost: share of gradients that are zero, chosen independently at every point.
        seed: seed of all worlds.
    """
    n, d, classes, points = 48, 16, 5, len(serving)
    draw = torch.Generator().manual_seed(seed)
    for _ in range(count):
        steps = torch.randn(points, n, d, generator=draw, dtype=torch.float64)
        steps[1:] *= 0.4
        gradients = steps.cumsum(0).flip(0)  # backwards through a residual stream, each block adds a little
        if lost:
            gradients[torch.rand(points, n, generator=draw) < lost] = 0.0
        matrices = torch.randn(max(serving) + 1, d, classes, generator=draw, dtype=torch.float64)
        errors = torch.randn(n, classes, generator=draw, dtype=torch.float64)
        yield StudyEvidence(errors, gradients, list(matrices), serving)


def assert_calibrated(null: Null, among: Iterator[StudyEvidence]) -> None:
    """Asserts that the deep mean, and the last point alone, vary as their null does, and are significant at `LEVEL`.

    Significance is counted in either direction. The sum of squared z-scores, which needs fewer worlds to show that a
    null is too narrow, is compared with chi-squared; draws as few as these widen it by the variance of Student's t.
    """
    observed, drawn = [], []
    for seed, world in enumerate(among):
        points, draws = world.observed().numpy(), world.drawn(null, DRAWS, seed).numpy()
        observed.append([points[1:].mean(), points[-1]])
        drawn.append([draws[1:].mean(0), draws[-1]])
    widened = (1 + 1 / DRAWS) * stats.t(DRAWS - 1).var()
    for own, nulls in zip(np.array(observed).T, np.array(drawn).swapaxes(0, 1), strict=True):
        ways: tuple[Literal["greater", "less"], ...] = ("greater", "less")
        found = sum(monte_carlo_p(x, k, way) <= LEVEL for x, k in zip(own, nulls, strict=True) for way in ways)
        assert stats.binomtest(found, len(own), 2 * LEVEL).pvalue > 0.01
        z = (own - nulls.mean(1)) / nulls.std(1, ddof=1)
        assert 0.005 < stats.chi2(len(z)).cdf((z**2).sum() / widened) < 0.995
