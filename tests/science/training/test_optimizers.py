from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kymograph_studies.models.feedforward import ResidualMLP
from kymograph_studies.models.flat import FlatNetwork, FlatParameters
from kymograph_studies.training.optimizers import Adam, AdamW, Sgd, SgdPerReplica


def test_sgd_has_a_rate_per_replica() -> None:
    flat = FlatParameters({"w": (2,)}, 2)
    flat.gradients.fill_(1.0)
    SgdPerReplica(flat, torch.tensor([0.1, 0.5])).step()
    torch.testing.assert_close(flat.values, torch.tensor([[-0.1, -0.1], [-0.5, -0.5]]))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.sampled_from([1e-3, 0.1]))
def test_adam_is_torchs_adam(seed: int, lr: float) -> None:
    draw = torch.Generator().manual_seed(seed)
    flat = FlatParameters({"w": (5,)}, 3)
    flat.values.copy_(torch.randn(3, 5, generator=draw))
    weights = flat.values.clone().requires_grad_()
    reference, ours = torch.optim.Adam([weights], lr=lr), Adam(flat, lr)
    for _ in range(5):
        gradients = torch.randn(3, 5, generator=draw)
        weights.grad = gradients.clone()
        flat.gradients.copy_(gradients)
        reference.step()
        ours.step()
    torch.testing.assert_close(flat.values, weights.detach())
    assert float(ours.state()["steps"]) == 5


@pytest.mark.parametrize("kind", ["adamw", "sgd"])
def test_parts_that_are_not_trained_neither_move_nor_decay(kind: str) -> None:
    flat = FlatNetwork(ResidualMLP(6, 1, 3, 2, 4))
    flat.gradients.fill_(0.5)
    weights = flat.values.clone().requires_grad_()
    weights.grad = flat.gradients.clone()
    trained = [flat.spans["blocks.1"], flat.spans["readout"]]
    start = flat.values.clone()
    if kind == "adamw":
        ours, reference = AdamW(flat, 0.1, 0.3, trained), torch.optim.AdamW([weights], lr=0.1, weight_decay=0.3)
    else:
        ours, reference = Sgd(flat, 0.1, 0.3, trained), torch.optim.SGD([weights], lr=0.1, weight_decay=0.3)  # type: ignore[assignment]
    for _ in range(3):
        ours.step(), reference.step()
    moved = torch.zeros_like(start, dtype=torch.bool)
    for span in trained:
        moved[0, span] = True
    torch.testing.assert_close(flat.values[moved], weights.detach()[moved])
    assert torch.equal(flat.values[~moved], start[~moved])


def test_the_rate_may_be_set_at_any_time_and_all_parts_are_the_default() -> None:
    for optimizer in (AdamW, Sgd):
        flat = FlatNetwork(ResidualMLP(6, 1, 3, 2, 4))
        flat.gradients.fill_(1.0)
        ours = optimizer(flat, 0.1, 0.0)
        ours.lr = 0.0
        before = flat.values.clone()
        ours.step()
        assert torch.equal(flat.values, before)
        ours.lr = 0.1
        ours.step()
        assert not flat.values.eq(before).any()
