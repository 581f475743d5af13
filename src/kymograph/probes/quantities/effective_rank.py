"""Effective rank of a layer's output."""

from __future__ import annotations

from torch import Tensor

from kymograph.probes.measures.effective_rank import effective_rank as effective_rank_of

PART = {
    "about": "effective rank of a layer's output, samples by units",
    "unit": "dimensions",
    "level": "deep",
    "order": 30,
    "at": "output",
    "together": "mean",
    "view": "units",
}
MOST_ROWS = 1024


def effective_rank(output: Tensor) -> Tensor:
    """Returns the effective rank of ``output`` (samples, units), of at most 1,024 rows, evenly spaced.

    At most min(samples, units), so compare networks only at the same batch size. Every position of a sequence or image
    is a row.

    >>> round(float(effective_rank(torch.eye(3))), 6)
    3.0
    """
    stride = -(-output.shape[0] // MOST_ROWS)
    return effective_rank_of(output[::stride])
