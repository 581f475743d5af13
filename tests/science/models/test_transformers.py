"""The Transformer on tokens."""

from __future__ import annotations

import pytest
import torch

from kymograph_studies.models.blocks import initialise
from kymograph_studies.models.transformers import TokenTransformer
from kymograph_studies.rules import make


@pytest.fixture
def net() -> TokenTransformer:
    made = TokenTransformer(vocab=9, length=5, classes=3, depth=2, width=8)
    initialise(made, torch.Generator().manual_seed(0))
    return made


def test_it_maps_sequences_to_classes_and_the_order_of_tokens_matters(net: TokenTransformer) -> None:
    x = torch.tensor([[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]])
    assert net(x).shape == (2, 3)
    assert not torch.allclose(net(x)[0], net(x)[1])


def test_the_head_reads_the_class_token_after_the_sequence(net: TokenTransformer) -> None:
    last = net.stream(torch.zeros(2, 5, dtype=torch.int64))[-1]
    assert last.shape == (2, 6, 8)
    assert torch.equal(net.readout(last), net.head(net.norm(last[:, 5])))


def test_direct_credit_is_spread_evenly_over_tokens(net: TokenTransformer) -> None:
    x, y = torch.randint(0, 9, (4, 5)), torch.tensor([0, 1, 2, 0])
    rule = make("dfa", net, generator=torch.Generator().manual_seed(1), example=x)
    signal = rule.backward(x, y).at_blocks[0]
    assert signal.shape == (4, 6, 8) and torch.equal(signal[:, 0], signal[:, 5])
    alone = net.spread(torch.ones(4, 8), signal)
    assert torch.allclose(alone.flatten(1).norm(dim=1), torch.full((4,), 8**0.5)), "spreading keeps the size"
