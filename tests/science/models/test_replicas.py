"""The networks with a replica axis."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph_studies.models.replicas import LayerStack, Wiring, initial_layers, initial_weights


@pytest.mark.parametrize("residual", [False, True])
def test_a_replica_computes_what_plain_torch_modules_compute(residual: bool) -> None:
    layers, width = 4, 6
    net = LayerStack(layers, width, Wiring((1.0 if residual else None,)))
    start = initial_layers(3, layers, width)
    net.flat.fill(0, start)
    linear = [nn.Linear(width, width) for _ in range(layers)]
    for number, module in enumerate(linear):
        module.load_state_dict({"weight": start[f"{number}.weight"], "bias": start[f"{number}.bias"]})
    x = torch.randn(5, width, generator=torch.Generator().manual_seed(2))
    h = x
    for module in linear:
        branch = torch.relu(module(h))
        h = h + branch if residual else branch
    torch.testing.assert_close(net(x[None])[0], h)


def test_plain_replicas_come_first() -> None:
    with pytest.raises(ValueError, match="plain replicas must come before"):
        Wiring((1.0, None))


def test_initial_weights_are_torchs_defaults_under_that_seed() -> None:
    state = torch.get_rng_state()
    torch.manual_seed(42)
    embedding, linear = nn.Embedding(4, 16), nn.Linear(16, 4)
    torch.set_rng_state(state)
    ours = initial_weights(42, 4, 16)
    assert torch.equal(ours["embedding"], embedding.weight)
    assert torch.equal(ours["weight"], linear.weight) and torch.equal(ours["bias"], linear.bias)
