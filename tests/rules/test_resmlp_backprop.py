"""Backpropagation written out, set against autograd's."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kymograph.rules.baselines import BlockBackprop
from kymograph.rules.fast.resmlp_backprop import WrittenBackprop
from tests.rules.test_resmlp_direct import NETWORKS, batch, network


@settings(max_examples=30)
@given(NETWORKS, st.sampled_from(["all", "readout", "no blocks"]), st.integers(1, 9))
def test_every_gradient_of_backpropagation_is_autograds(options: dict[str, int], parts: str, size: int) -> None:
    flat = network(**options)
    expected = BlockBackprop(parts).backward(flat, *batch(size)).loss
    gradients = flat.gradients.clone()
    flat.gradients.fill_(3.0)  # what was there before must not matter
    found = WrittenBackprop(parts).backward(flat, *batch(size)).loss
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(flat.gradients, gradients, rtol=1e-9, atol=1e-12)
    trained = {"all": ("embed", "blocks", "readout"), "readout": ("readout",), "no blocks": ("embed", "readout")}[parts]
    for name, span in flat.spans.items():
        if not name.startswith(trained):
            assert flat.gradients[0, span].eq(0).all(), f"{parts}: {name} must be exactly zero"


def test_training_goes_the_same_way_and_short_batches_are_no_trouble() -> None:
    ways = []
    for rule in (BlockBackprop(), WrittenBackprop()):
        flat = network()
        for step in range(20):
            rule.backward(flat, *batch(3 if step == 19 else 8, step))
            flat.values.sub_(flat.gradients, alpha=0.1)
        ways.append(flat.values)
    torch.testing.assert_close(ways[0], ways[1], rtol=1e-8, atol=1e-11)
