from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from kymograph import _streams as streams
from kymograph_studies.analysis import nulls as columns
from kymograph_studies.analysis import nulls as fresh
from kymograph_studies.analysis import nulls as rows
from tests.science.analysis.worlds import SERVING, Null, worlds

FIRST_AND_LAST = {
    "fresh": (-0.07622490593687047, -0.0015157493762671947),
    "rows": (-0.0628358902359587, -0.05824123388579623),
    "columns": (-0.010819175952049188, -0.03122653045945547),
}
"""The first draw at the first point and the last at the last, as stored runs have them since version 3."""


def fresh_matrix(matrix: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(3, *matrix.shape, generator=generator) / math.sqrt(matrix.shape[1])


def permuted_rows(matrix: Tensor, generator: torch.Generator) -> Tensor:
    orders = torch.rand(3, len(matrix), generator=generator).argsort(1)
    return torch.stack([matrix.float()[order] for order in orders])


def permuted_columns(matrix: Tensor, generator: torch.Generator) -> Tensor:
    orders = torch.rand(3, matrix.shape[1], generator=generator).argsort(1)
    return torch.stack([matrix.float()[:, order] for order in orders])


@pytest.mark.parametrize(
    ("name", "null", "replaced"),
    [
        ("fresh", fresh.draw_fresh, fresh_matrix),
        ("rows", rows.draw_rows, permuted_rows),
        ("columns", columns.draw_columns, permuted_columns),
    ],
)
def test_a_null_of_matrices_keeps_its_numbers(
    name: str, null: Null, replaced: Callable[[Tensor, torch.Generator], Tensor]
) -> None:
    world = next(worlds(1, lost=0.1))
    found = world.drawn(null, 3, seed=7)
    for point, index in enumerate(SERVING):
        stack = replaced(world.matrices[index], streams.generator(7, "null", name, str(index)))
        torch.testing.assert_close(found[point], world.pairs[point].mean_cosines(stack), rtol=0.0, atol=1e-7)
    assert (float(found[0, 0]), float(found[-1, -1])) == pytest.approx(FIRST_AND_LAST[name], abs=1e-7)
