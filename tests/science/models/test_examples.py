from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph.errors import KymographError
from kymograph_studies.models.cut import guess_example


@pytest.mark.parametrize(
    ("net", "shape"),
    [
        (nn.Sequential(nn.Linear(8, 4), nn.Linear(4, 3)), (2, 8)),
        (nn.Sequential(nn.Flatten(), nn.Linear(64, 3), nn.Linear(3, 2)), (2, 64)),
        (nn.Sequential(nn.Unflatten(1, (1, 64)), nn.Flatten(), nn.Linear(64, 3)), (2, 64)),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(4 * 26 * 26, 3)), (2, 3, 28, 28)),
        (nn.Sequential(nn.Conv1d(2, 4, 3), nn.AdaptiveAvgPool1d(1)), (2, 2, 8)),
        (nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(64, 3)), (2, 16)),
    ],
)
def test_inputs_are_guessed_from_the_first_layer_and_the_network_runs_on_them(
    net: nn.Module, shape: tuple[int, ...]
) -> None:
    x = guess_example(net)
    assert tuple(x.shape) == shape and not x.any()
    drawn = guess_example(net.double(), 5, torch.Generator().manual_seed(1))
    assert len(drawn) == 5 and drawn.any()
    assert drawn.dtype in (torch.float64, torch.int64) and net(drawn).dtype == torch.float64


def test_guessing_leaves_no_trace() -> None:
    net = nn.Sequential(nn.Linear(8, 4), nn.BatchNorm1d(4))
    guess_example(net)
    assert net.training and int(net[1].num_batches_tracked) == 0  # type: ignore[arg-type]


def test_what_cannot_be_guessed_is_asked_for() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
            return self.layer(x) + other

    with pytest.raises(KymographError, match="the inputs of Two cannot be guessed; give an example"):
        guess_example(Two())
