"""Shared by nulls that replace the feedback matrices: one stack of draws serves all points of a matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kymograph import streams
from kymograph.analysis.credit import Pairs

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
