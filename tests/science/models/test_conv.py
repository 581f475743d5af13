"""The convolutional network, with and without batch norm."""

from __future__ import annotations

import torch
from torch import nn

from kymograph_studies.models import draw_model


def drawn(**settings: bool) -> nn.Module:
    return draw_model("conv", 1, 8, 10, torch.Generator().manual_seed(1), depth=2, width=4, **settings)


def test_batch_norm_is_before_the_activation_and_adds_nothing_else() -> None:
    plain, normed = drawn(), drawn(batch_norm=True)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in plain.modules())
    assert sum(isinstance(module, nn.BatchNorm2d) for module in normed.modules()) == 2
    shared = dict(normed.named_parameters())
    assert all(torch.equal(own, shared[name]) for name, own in plain.named_parameters()), "the weights start alike"
    h = torch.randn(6, 4, 8, 8)
    block = normed.blocks[0]  # type: ignore[index, union-attr]
    before = block.conv(h)  # type: ignore[operator]
    scaled = (before - before.mean((0, 2, 3), keepdim=True)) / before.std((0, 2, 3), keepdim=True, unbiased=False)
    assert torch.allclose(block(h), nn.functional.gelu(scaled), atol=1e-3)  # type: ignore[operator]
