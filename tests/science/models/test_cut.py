"""Cutting any module into parts, and guessing inputs that it accepts."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph._errors import KymographError
from kymograph_studies.models.cut import cut, guess_example
from kymograph_studies.models.feedforward import ResidualMLP

IMAGE = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def test_any_sequential_or_module_with_blocks_can_be_cut() -> None:
    whole = nn.Sequential(nn.Flatten(), nn.Linear(3072, 8), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 10))
    for net in (cut(whole, ["2", "3"]), cut(whole, ["2"]), cut(whole)):
        assert len(net.blocks) == 1, "a layer without parameters goes with the one before it"
        torch.testing.assert_close(net(IMAGE), whole(IMAGE))
    deep = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Linear(4, 3))
    net = cut(deep)
    assert len(net.blocks) == 2 and torch.equal(net(torch.ones(2, 4)), deep(torch.ones(2, 4)))
    again = nn.ReLU()
    reused = nn.Sequential(nn.Linear(4, 4), again, nn.Linear(4, 4), again, nn.Linear(4, 3), again)
    assert torch.equal(cut(reused)(torch.ones(2, 4)), reused(torch.ones(2, 4)))

    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 2)])

    assert cut(Own())(torch.ones(1, 4)).shape == (1, 2)
    own = Own()
    own.blocks = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))  # type: ignore[assignment]
    assert len(cut(own).blocks) == 2 and torch.equal(cut(own)(torch.ones(1, 4)), own.blocks(torch.ones(1, 4)))

    class Scripts(nn.Module):  # the parts by the names that the scripts have for them
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.first, self.second = nn.Linear(4, 5), nn.Linear(5, 5), nn.Linear(5, 5)
            self.out_ln, self.out_head = nn.LayerNorm(5), nn.Linear(5, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.embed(x)
            for block in (self.first, self.second):
                h = h + block(h)
            return self.out_head(self.out_ln(h))

    scripts = Scripts()
    torch.testing.assert_close(
        cut(scripts, ["first", "second"], skip=True)(torch.ones(1, 4)), scripts(torch.ones(1, 4))
    )
    resmlp = ResidualMLP(4, 1, 2, width=4)
    assert cut(resmlp) is resmlp


def test_what_cannot_be_cut_is_said() -> None:
    whole = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    with pytest.raises(KymographError, match="no block 'x'"):
        cut(whole, ["x"])
    with pytest.raises(KymographError, match="must follow one another"):
        cut(whole, ["0", "2"])
    with pytest.raises(KymographError, match=r"needs `.blocks`"):
        cut(nn.Linear(2, 2))
    with pytest.raises(KymographError, match="has 2 layers with parameters"):
        cut(nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)))

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks, self.exit = nn.ModuleList([nn.Linear(2, 2), nn.ReLU()]), nn.Linear(2, 2)

    with pytest.raises(KymographError, match="block 1 has no parameters"):
        cut(Odd())
    with pytest.raises(KymographError, match=r"exit.weight belongs to no part"):
        cut(Odd(), ["blocks.0"])
    with pytest.raises(KymographError, match="no submodule 'entry'"):
        cut(Odd(), ["entry"])
    tied = nn.Linear(2, 2)
    with pytest.raises(KymographError, match="share parameters"):
        cut(nn.Sequential(nn.Linear(2, 2), tied, tied, nn.Linear(2, 2)))
    with pytest.raises(KymographError, match="share parameters"):
        cut(Odd(), ["blocks.0", "blocks.0", "exit"])


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
