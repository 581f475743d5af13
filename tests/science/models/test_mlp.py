"""The multilayer perceptron."""

from __future__ import annotations

import torch

from kymograph_studies.models import draw_model
from kymograph_studies.models.feedforward import MLP


def drawn(width: int = 64) -> MLP:
    net = draw_model("mlp", 1, 8, 10, torch.Generator().manual_seed(3), depth=2, width=width)
    assert isinstance(net, MLP)
    return net


def test_it_computes_relu_layers_and_a_linear_head() -> None:
    net, x = drawn(), torch.randn(5, 1, 8, 8)
    h = x.flatten(1)
    for layer in (net.embed, *net.blocks):
        h = (h @ layer.linear.weight.T + layer.linear.bias).clamp(min=0)  # type: ignore[union-attr, operator]
    assert torch.allclose(net(x), net.head(h), atol=1e-6)


def test_hidden_weights_are_drawn_by_hes_law_and_biases_start_at_zero() -> None:
    net = drawn(512)
    for layer, inputs in ((net.embed, 64), (net.blocks[0], 512)):
        linear = layer.linear  # type: ignore[union-attr]
        assert abs(float(linear.weight.detach().std()) / (2 / inputs) ** 0.5 - 1) < 0.02  # type: ignore[operator, arg-type]
        assert not linear.bias.any()  # type: ignore[union-attr, operator]
