"""Networks cut into blocks, and their initial weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph._probes.layers import evaluation_mode
from kymograph_studies.models.blocks import BlockNetwork, initialise, parameter_names
from kymograph_studies.models.feedforward import ConvNet, ResidualMLP
from kymograph_studies.models.replicas import LayerStack, Wiring
from kymograph_studies.models.transformers import ViTMini

IMAGE = torch.randn(3, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def networks() -> dict[str, BlockNetwork]:
    return {
        "resmlp": ResidualMLP(3, 32, 10, width=16),
        "resmlp, no skip": ResidualMLP(3, 32, 10, width=16, skip=False, out_ln=False, expansion=2),
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
        width, positions = net.credit_shape(point)
        credit = torch.randn(3, width)
        spread = net.spread(credit, point)
        assert spread.shape == point.shape
        torch.testing.assert_close(spread.square().sum(), credit.square().sum(), rtol=1e-4, atol=0)
        assert net.measured(point).shape[0] == 3 and net.measured(point).dim() == 2
        assert positions * width == point[0].numel()


@pytest.mark.parametrize("name", networks())
def test_a_trace_holds_the_pass_and_a_walk_goes_on_from_any_point(name: str) -> None:
    net = networks()[name]
    start, outputs, points = net.trace(IMAGE)
    assert start is points[0] and len(outputs) == 4
    for number, (block, output) in enumerate(zip(net.blocks, outputs, strict=True)):
        assert torch.equal(output, block(points[number]))
        assert torch.equal(points[number + 1], net.join(points[number], output))
        rest_of_outputs, rest = net.walk(points[number], number)
        assert torch.equal(rest[-1], points[-1]) and len(rest) == 5 - number and len(rest_of_outputs) == 4 - number
    assert net.walk(points[-1], 4) == ([], [points[-1]])


@pytest.mark.parametrize("name", networks())
def test_in_a_detached_trace_each_part_has_a_graph_of_its_own(name: str) -> None:
    net = networks()[name]
    whole, (start, outputs, points) = net.trace(IMAGE), net.trace(IMAGE, detach=True)
    for one, two in zip((whole.start, *whole.points, *whole.outputs), (start, *points, *outputs), strict=True):
        assert torch.equal(one, two)
    assert not any(point.requires_grad for point in points) and start.requires_grad
    outputs[2].sum().backward()
    for part, names in parameter_names(net).items():
        reached = [net.get_parameter(own).grad is not None for own in names]
        assert any(reached) == (part == "blocks.2"), part


def test_every_parameter_belongs_to_one_part() -> None:
    net = networks()["vit"]
    parts = parameter_names(net)
    assert list(parts) == ["embed", "blocks.0", "blocks.1", "blocks.2", "blocks.3", "readout"]
    assert sorted(name for names in parts.values() for name in names) == sorted(n for n, _ in net.named_parameters())
    assert list(parameter_names(LayerStack(2, 3, Wiring((1.0,))))) == ["network"]


def test_evaluation_mode_is_left_as_it_was_entered_even_after_an_error() -> None:
    net = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout().eval()))
    with pytest.raises(RuntimeError), evaluation_mode(net):
        assert not any(module.training for module in net.modules())
        raise RuntimeError
    assert net.training and net[0].training and not net[1][0].training


def test_initial_weights_follow_their_laws_and_nothing_else_is_touched() -> None:
    state = torch.get_rng_state()
    one, two = (ResidualMLP(100, 1, 10, width=400, w2_std=0.01) for _ in range(2))
    torch.set_rng_state(state)
    for net in (one, two):
        initialise(net, torch.Generator().manual_seed(1))
    assert torch.equal(torch.get_rng_state(), state)
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        assert torch.equal(a, b)
    block = one.mlp_blocks[0]
    assert block.w2.weight.detach().std() == pytest.approx(0.01, rel=0.02) and block.w2.bias.eq(0).all()
    assert block.w1.weight.abs().max() <= 1 / 20 and block.w1.weight.detach().std() == pytest.approx(
        1 / 20 / 3**0.5, rel=0.02
    )
    assert block.norm.weight.eq(1).all() and one.norm.bias.eq(0).all()


def test_norms_of_any_kind_start_at_one_and_zero_and_free_parameters_small() -> None:
    class Free(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token = nn.Parameter(torch.zeros(1000))

    norms = [
        nn.BatchNorm2d(4),
        nn.GroupNorm(2, 4),
        nn.LayerNorm(4, elementwise_affine=False),
        nn.LayerNorm(4, bias=False),
    ]
    free = Free()
    initialise(nn.ModuleList([*norms, free]), torch.Generator().manual_seed(1))
    for norm in norms:
        assert norm.weight is None or norm.weight.eq(1).all()
        assert norm.bias is None or norm.bias.eq(0).all()
    assert free.token.detach().std() == pytest.approx(0.02, rel=0.1)
