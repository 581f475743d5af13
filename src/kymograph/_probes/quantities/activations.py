"""How a layer's units are used: dead, saturated, attention, effective rank."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from kymograph._probes.norms import as_float64
from kymograph._shapes import Float

PARTS = {
    "dead-fraction": {
        "about": "share of units after a ReLU that are exactly 0 for every sample of the batch",
        "unit": "1",
        "log": False,
        "level": "standard",
        "order": 21,
        "from": ["live_units", "unit_count"],
    },
    "live-units": {
        "about": "units after a ReLU that are not 0 for every sample of the batch",
        "unit": "units",
        "order": 92,
        "at": "output",
        "together": "sum",
        "across": "union",
        "layers": ["ReLU", "ReLU6"],
        "view": "units",
    },
    "unit-count": {
        "about": "units after a ReLU",
        "unit": "units",
        "order": 93,
        "at": "output",
        "together": "sum",
        "across": "max",
        "layers": ["ReLU", "ReLU6"],
        "view": "units",
    },
    "saturated-fraction": {
        "about": "share of activations at which the slope of a tanh or sigmoid is below 5 % of its largest",
        "unit": "1",
        "log": False,
        "level": "standard",
        "order": 22,
        "at": "output",
        "layers": ["Tanh", "Sigmoid"],
    },
    "attention-entropy": {
        "about": "mean entropy of the attention of one query, over heads and queries",
        "unit": "nats",
        "level": "deep",
        "order": 31,
        "at": "attention",
    },
    "effective-rank": {
        "about": "effective rank of a layer's output, samples by units",
        "unit": "dimensions",
        "level": "deep",
        "order": 30,
        "at": "output",
        "across": "undefined",
        "view": "units",
    },
}

FLAT = 0.95**0.5  # 1 - tanh^2 < 0.05 beyond it: at tanh = +-0.975, at sigmoid = 0.013 and 0.987
MOST_ROWS = 1024  # of a layer's output, for its effective rank


def dead_fraction(live: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Returns the share of ``count`` units that are not among the ``live`` ones.

    A dead unit is exactly 0 for every sample, and at every position if it is a channel. Only nn.ReLU and nn.ReLU6 are
    measured; other activations are not exactly 0. A unit that is dead on one batch can fire on the next, so larger
    batches say more. If a layer is called several times, the units of each call are counted. Micro-batches, between
    which gradients are accumulated, count as one batch.

    >>> dead_fraction(np.array([3.0]), np.array([4.0]))
    array([0.25])
    """
    dead: np.ndarray = 1.0 - live / count
    return dead


def live_units(output: Tensor) -> Tensor:
    """Returns the sum of each column of a rectifier's ``output`` (samples, units); the probe counts those above 0.

    The output is never negative, so only a column of zeros sums to 0, and a sum is much faster than a comparison.

    >>> live_units(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 2.0]])).tolist()
    [0.0, 1.0, 2.0]
    """
    return output.sum(0)


def unit_count(output: Tensor) -> int:
    """Returns the number of columns of ``output`` (samples, units).

    >>> unit_count(torch.zeros(2, 3))
    3
    """
    return output.shape[-1]


def saturated_fraction(output: Tensor, layer: nn.Module) -> Tensor:
    """Returns the share of entries of ``output`` at which ``layer`` has less than 5 % of its largest slope.

    That is |tanh| > 0.975, and a sigmoid below 0.013 or above 0.987, the same for tanh(z / 2). Only nn.Tanh and
    nn.Sigmoid are measured.

    >>> float(saturated_fraction(torch.tensor([0.0, 0.98, -0.99, 0.5]), nn.Tanh()))
    0.5
    """
    centred = output if isinstance(layer, nn.Tanh) else 2.0 * output - 1.0
    return (centred.abs() > FLAT).float().mean()


def attention_entropy(weights: Tensor) -> Tensor:
    """Returns the mean over batch, heads and queries of the entropy of ``weights`` (batch, heads, queries, keys).

    0: every query attends to one key; log(keys): it attends to all equally. Fully masked queries are left out.

    >>> round(float(attention_entropy(torch.full((1, 1, 2, 4), 0.25))), 6)
    1.386294
    """
    return _entropy(weights.double()).nanmean()


def effective_rank(output: Tensor) -> Tensor:
    """Returns the effective rank of ``output`` (samples, units), of at most 1,024 rows, evenly spaced.

    At most min(samples, units), so compare networks only at the same batch size. Every position of a sequence or image
    is a row.

    >>> round(float(effective_rank(torch.eye(3))), 6)
    3.0
    """
    stride = -(-output.shape[0] // MOST_ROWS)
    return effective_rank_of(output[::stride])


def effective_rank_of(matrix: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch"]:
    """Returns exp(entropy) of the normalised singular values of ``matrix`` (..., n, d); Roy and Vetterli, 2007.

    Unlike for the effective dimension, the matrix is not centred and the singular values are not squared. The scale of
    the matrix does not matter. At most min(n, d); NaN if all entries are 0 or one is not finite.

    >>> round(float(effective_rank(torch.diag(torch.tensor([2.0, 2.0, 0.0])))), 6)
    2.0
    """
    matrix = as_float64(matrix)
    usable = matrix.isfinite().all(-1).all(-1)
    singular = torch.linalg.svdvals(torch.where(usable[..., None, None], matrix, 0.0))  # svdvals raises on NaN
    share = singular / singular.sum(-1, keepdim=True)  # 0/0 = NaN where all are 0
    return _entropy(share).exp()


def _entropy(shares: Float[Tensor, "*batch n"]) -> Float[Tensor, "*batch"]:
    """Returns the entropy of each of the distributions ``shares`` (..., n), in nats."""
    terms: Tensor = torch.special.entr(shares)
    return terms.sum(-1)
