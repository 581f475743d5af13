"""The multilayer perceptron, and the convolutional network with and without batch norm."""

from __future__ import annotations

import torch
from torch import nn

from kymograph_studies.models import draw_model
from kymograph_studies.models.feedforward import MLP


def drawn_mlp(width: int = 64) -> MLP:
    net = draw_model("mlp", 1, 8, 10, torch.Generator().manual_seed(3), depth=2, width=width)
    assert isinstance(net, MLP)
    return net


def test_it_computes_relu_layers_and_a_linear_head() -> None:
    net, x = drawn_mlp(), torch.randn(5, 1, 8, 8)
    h = x.flatten(1)
    for layer in (net.embed, *net.blocks):
        h = (h @ layer.linear.weight.T + layer.linear.bias).clamp(min=0)  # type: ignore[union-attr, operator]
    assert torch.allclose(net(x), net.head(h), atol=1e-6)


def test_hidden_weights_are_drawn_by_hes_law_and_biases_start_at_zero() -> None:
    net = drawn_mlp(512)
    for layer, inputs in ((net.embed, 64), (net.blocks[0], 512)):
        linear = layer.linear  # type: ignore[union-attr]
        assert abs(float(linear.weight.detach().std()) / (2 / inputs) ** 0.5 - 1) < 0.02  # type: ignore[operator, arg-type]
        assert not linear.bias.any()  # type: ignore[union-attr, operator]


def drawn_conv(**settings: bool) -> nn.Module:
    return draw_model("conv", 1, 8, 10, torch.Generator().manual_seed(1), depth=2, width=4, **settings)


def test_batch_norm_is_before_the_activation_and_adds_nothing_else() -> None:
    plain, normed = drawn_conv(), drawn_conv(batch_norm=True)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in plain.modules())
    assert sum(isinstance(module, nn.BatchNorm2d) for module in normed.modules()) == 2
    shared = dict(normed.named_parameters())
    assert all(torch.equal(own, shared[name]) for name, own in plain.named_parameters()), "the weights start alike"
    h = torch.randn(6, 4, 8, 8)
    block = normed.blocks[0]  # type: ignore[index, union-attr]
    before = block.conv(h)  # type: ignore[operator]
    scaled = (before - before.mean((0, 2, 3), keepdim=True)) / before.std((0, 2, 3), keepdim=True, unbiased=False)
    assert torch.allclose(block(h), nn.functional.gelu(scaled), atol=1e-3)  # type: ignore[operator]
