from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph_studies.models.blocks import initialise
from kymograph_studies.models.feedforward import ResidualMLP


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
