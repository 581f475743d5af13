from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph.errors import KymographError
from kymograph_studies.models.cut import cut
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
