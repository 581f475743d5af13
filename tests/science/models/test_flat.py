from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph_studies.models.blocks import BlockNetwork, parameter_names
from kymograph_studies.models.feedforward import MlpBlock, ResidualMLP
from kymograph_studies.models.flat import FlatNetwork, FlatParameters, stack_of_views, views_of
from kymograph_studies.models.replicas import LayerStack, Wiring, initial_layers
from tests.science.models.test_blocks import IMAGE, networks


def test_a_line_holds_each_parameter_of_all_replicas_together() -> None:
    flat = FlatParameters({"w": (2,), "b": ()}, 3, rows=False)
    for replica in range(3):
        flat.fill(replica, {"w": torch.full((2,), replica + 1.0), "b": torch.tensor(-replica - 1.0)})
    assert flat.values.tolist() == [1, 1, 2, 2, 3, 3, -1, -2, -3]
    assert flat.views["w"].is_contiguous() and flat.gradient_views["w"].is_contiguous()


def test_views_share_the_matrix_and_replicas_do_not_meet() -> None:
    flat = FlatParameters({"w": (2, 3), "b": ()}, 2)
    flat.fill(1, {"w": torch.ones(2, 3), "b": torch.tensor(5.0)})
    assert flat.values[0].eq(0).all() and flat.values[1].tolist() == [1] * 6 + [5]
    assert flat.views["w"].shape == (2, 2, 3) and flat.views["b"].shape == (2,)
    with pytest.raises(ValueError, match="expected parameters"):
        flat.fill(0, {"w": torch.ones(2, 3)})


@pytest.mark.parametrize("name", networks())
def test_flattening_keeps_every_value_and_lets_autograd_fill_the_row(name: str) -> None:
    net = networks()[name]
    before = net(IMAGE).detach()
    flat = FlatNetwork(net)
    assert flat.values.shape[1] == sum(p.numel() for p in net.parameters())
    assert torch.equal(net(IMAGE), before)
    net(IMAGE).sum().backward()
    for group, names in parameter_names(net).items():
        gradients = [net.get_parameter(own).grad for own in names]
        joined = torch.cat([gradient.flatten() for gradient in gradients if gradient is not None])
        assert torch.equal(flat.gradients[0, flat.spans[group]], joined)
    assert flat.block_spans == [flat.spans[f"blocks.{number}"] for number in range(4)]
    flat.values.zero_()
    assert all(p.eq(0).all() for p in net.parameters()), "the parameters are views of the row"


def test_gradients_that_were_let_go_are_attached_again() -> None:
    flat = FlatNetwork(networks()["conv"])
    flat.net.zero_grad(set_to_none=True)
    flat.net(IMAGE).sum().backward()
    assert not flat.gradients.any()
    flat.attach()
    flat.net(IMAGE).sum().backward()
    assert flat.gradients.any()


@pytest.mark.parametrize("wiring", [Wiring((None, 0.5)), Wiring((1.0, 1.0), learned=True)])
def test_replicas_stay_views_of_their_memory_when_they_change_precision(wiring: Wiring) -> None:
    net = LayerStack(3, 4, wiring)
    for replica in range(2):
        net.flat.fill(replica, initial_layers(replica, 3, 4, wiring.learned))
    x = torch.randn(2, 5, 4)
    before = net(x)
    net.double()
    assert net.flat.values.dtype == torch.float64 and all(p.dtype == torch.float64 for p in net.parameters())
    torch.testing.assert_close(net(x.double()), before.double(), rtol=1e-5, atol=1e-6)
    net(x.double()).sum().backward()
    assert net.flat.gradients.any(), "autograd fills the memory"
    net.flat.values.zero_()
    assert not any(parameter.any() for parameter in net.parameters())


def blocks_weights(net: BlockNetwork, name: str) -> list[torch.Tensor]:
    return [block.get_parameter(name) for block in net.blocks]


@pytest.mark.parametrize("name", ["norm.weight", "w1.weight", "w2.bias"])
def test_parameters_of_blocks_in_a_row_are_one_tensor(name: str) -> None:
    net = ResidualMLP(30, 1, 7, 3, 12, expansion=2)
    weights = blocks_weights(net, name)
    assert stack_of_views(weights) is None, "each has memory of its own"
    flat = FlatNetwork(net)
    stack = stack_of_views(weights)
    assert stack is not None and not stack.requires_grad and torch.equal(stack, torch.stack(weights))
    gradients = stack_of_views([weight.grad for weight in weights if weight.grad is not None])
    assert gradients is not None
    for number, weight in enumerate(weights):
        gradients[number] = float(number)
        assert weight.grad is not None and weight.grad.eq(number).all()
    assert flat.gradients.sum() == 3 * weights[0].numel(), "and of nothing else"


def test_what_is_not_evenly_spaced_or_not_alike_is_no_stack() -> None:
    line = torch.arange(20.0)
    assert stack_of_views([line[0:2], line[5:7], line[10:12]]) is not None
    assert stack_of_views([line[3:7]]) is not None
    for apart in (
        [line[0:2], line[5:7], line[9:11]],
        [line[5:7], line[0:2]],
        [line[0:2], line[5:8]],
        [line[0:4:2], line[5:7]],
        [line[0:2], line.double()[5:7]],
        [line[0:2], line[0:2]],
    ):
        assert stack_of_views(apart) is None
    odd = ResidualMLP(30, 1, 7, 2, 12)
    odd.blocks[1] = MlpBlock(12, 3, 0.01)
    FlatNetwork(odd)
    assert stack_of_views(blocks_weights(odd, "w1.weight")) is None
    shared = nn.Parameter(torch.zeros(2, 3))
    assert [tuple(view.shape) for view in views_of(line, [shared, torch.zeros(()), torch.zeros(4)])] == [
        (2, 3),
        (),
        (4,),
    ]
