from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph.errors import KymographError
from kymograph.models.blocks import BlockNetwork, FlatNetwork, cut, parameter_names
from kymograph.models.resmlp import ResidualMLP, initialise
from kymograph.models.vision import ConvNet, ViTMini
from kymograph.rules.direct import DirectFeedback, draw_feedback

IMAGE = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def networks() -> dict[str, BlockNetwork]:
    return {
        "resmlp": ResidualMLP(3072, 10, width=16),
        "resmlp, no skip": ResidualMLP(3072, 10, width=16, skip=False, out_ln=False, expansion=2),
        "vit": ViTMini(3, 32, 10, width=16),
        "conv": ConvNet(3, 32, 10, width=8),
    }


@pytest.mark.parametrize("name", networks())
def test_the_parts_put_together_are_the_network(name: str) -> None:
    net = networks()[name]
    h = net.embed(IMAGE)
    for block in net.blocks:
        f = block(h)
        h = h + f if net.skip else f
    torch.testing.assert_close(net(IMAGE), net.readout(h))
    assert net(IMAGE).shape == (3, 10)
    points = net.stream(IMAGE)
    assert len(points) == 5
    for point in points:
        width, places = net.credit_shape(point)
        credit = torch.randn(3, width)
        spread = net.spread(credit, point)
        assert spread.shape == point.shape
        torch.testing.assert_close(spread.square().sum(), credit.square().sum(), rtol=1e-4, atol=0)
        assert net.measured(point).shape[0] == 3 and net.measured(point).dim() == 2
        assert places * width == point[0].numel()


@pytest.mark.parametrize("name", networks())
def test_flattening_keeps_every_value_and_lets_autograd_fill_the_row(name: str) -> None:
    net = networks()[name]
    before = net(IMAGE).detach()
    flat = FlatNetwork(net)
    assert flat.values.shape[1] == sum(p.numel() for p in net.parameters())
    assert torch.equal(net(IMAGE), before)
    net(IMAGE).sum().backward()
    for group, names in parameter_names(net).items():
        gradients = torch.cat([net.get_parameter(name).grad.flatten() for name in names]) if names else torch.empty(0)
        assert torch.equal(flat.gradients[0, flat.spans[group]], gradients)
    flat.values.zero_()
    assert all(p.eq(0).all() for p in net.parameters()), "the parameters are views of the row"


def test_initial_weights_follow_their_laws_and_nothing_else_is_touched() -> None:
    state = torch.get_rng_state()
    one, two = (ResidualMLP(100, 10, width=400, w2_std=0.01) for _ in range(2))
    torch.set_rng_state(state)
    for net in (one, two):
        initialise(net, torch.Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), state)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    block = one.blocks[0]
    assert block.w2.weight.detach().std() == pytest.approx(0.01, rel=0.02) and block.w2.bias.eq(0).all()
    assert block.w1.weight.abs().max() <= 1 / 20 and block.w1.weight.detach().std() == pytest.approx(
        1 / 20 / 3**0.5, rel=0.02
    )
    assert block.norm.weight.eq(1).all() and one.norm.bias.eq(0).all()


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
    flat = FlatNetwork(net)
    rule = DirectFeedback(draw_feedback(torch.Generator().manual_seed(0), [4, 4], 3))
    rule.backward(flat, torch.ones(2, 4), torch.tensor([0, 2]))
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in net.blocks.parameters())

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
    resmlp = ResidualMLP(4, 2, width=4)
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
