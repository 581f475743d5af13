"""Is a measured cosine between credit and gradient real, or what random feedback would give?

For images i with output errors e_i (C,) and gradients g_i (d,) at one point of the stream, and a feedback matrix B
(d, C), the statistic is the mean over images of cos(B e_i, g_i). Errors and gradients are computed once; a draw of B
then costs two small matrix products, because

    <B e_i, g_i> = (g_i B) . e_i        and        ||B e_i||^2 = e_i (B^T B) e_i .

All vectors are normalised in float64, so nothing depends on how small the gradients are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kymograph._shapes import Float, Int
from kymograph.quantities import directions

_CHUNK = 32
_FEW_CLASSES = 32  # above, storing e_i e_i^T costs more memory than it saves time


@dataclass(frozen=True)
class Pairs:
    """Unit errors and unit gradients of the images that have both, at one point of the stream."""

    errors: Float[Tensor, "n C"]  # float64, rows of length 1
    gradients: Float[Tensor, "n d"]  # float64, rows of length 1
    images: Int[Tensor, " n"]
    """The index of each of these images among all, increasing: by it, points that lack different images are matched."""
    below_floor: int
    """How many images were left out because their error or gradient is zero or not finite."""

    @staticmethod
    def of(errors: Float[Tensor, "n C"], gradients: Float[Tensor, "n d"]) -> Pairs:
        """Scales every row of ``errors`` (n, C) and ``gradients`` (n, d) to length 1; drops images that lack either."""
        rows = [directions(errors), directions(gradients)]
        whole = ~(rows[0].isnan().any(1) | rows[1].isnan().any(1))
        return Pairs(rows[0][whole], rows[1][whole], whole.nonzero()[:, 0], int((~whole).sum()))

    def mean_cosines(self, feedback: Float[Tensor, "K d C"]) -> Float[Tensor, " K"]:
        """Returns the mean over images of cos(B e_i, g_i) for each B of ``feedback`` (K, d, C), shape (K,).

        The products are taken in the precision of ``feedback`` and the mean in float64. Both sides are unit vectors, so
        float32 costs a mean cosine about 1e-8: enough for the thousands of draws of a null, at twice the speed.
        """
        errors, gradients = (self.errors, self.gradients) if feedback.dtype == torch.float64 else self._single
        few = feedback.shape[2] <= _FEW_CLASSES
        outer = (errors[:, :, None] * errors[:, None, :]).flatten(1) if few else None  # e_i e_i^T as rows
        parts = []
        for block in feedback.split(_CHUNK):
            k, d, c = block.shape
            stacked = block.permute(1, 0, 2).reshape(d, k * c)
            dots = torch.einsum("nkc,nc->nk", (gradients @ stacked).view(-1, k, c), errors)
            grams = block.transpose(1, 2) @ block
            if outer is not None:
                squares = outer @ grams.view(k, c * c).T
            else:
                products = (errors @ grams.permute(1, 0, 2).reshape(c, k * c)).view(-1, k, c)
                squares = torch.einsum("nkc,nc->nk", products, errors)
            parts.append((dots / squares.sqrt()).double().mean(0))
        return torch.cat(parts)

    @functools.cached_property
    def _single(self) -> tuple[Tensor, Tensor]:
        """The unit vectors in float32."""
        return self.errors.float(), self.gradients.float()

    def alignment(self) -> Float[Tensor, "d C"]:
        """Returns the sum over images of g_i e_i^T divided by n, (d, C): all that the closed form needs."""
        return self.gradients.T @ self.errors / len(self.errors)


def closed_form_sd(alignments: Sequence[Float[Tensor, "d C"]]) -> float:
    """Returns the standard deviation, over fresh Gaussian B, of the mean cosine averaged over points that share one B.

    Var ~ (1/d) mean_ij cos(e_i, e_j) cos(g_i, g_j) = ||A||_F^2 / d with A the mean of the points' alignments: for one
    point that is the published form; points served by the same B add up before they are squared.
    """
    mean = torch.stack(list(alignments)).mean(0)
    return float(torch.linalg.matrix_norm(mean)) / math.sqrt(mean.shape[0])
