"""Backpropagation written out, set against autograd's."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kymograph.rules.baselines import BlockBackprop
from kymograph.rules.written import WrittenBackprop
from tests.rules.test_stacked import batch, network


@settings(max_examples=30)
@given(
    depth=st.integers(1, 4),
    width=st.integers(2, 12),
    expansion=st.integers(1, 3),
    skip=st.booleans(),
    out_ln=st.booleans(),
    parts=st.sampled_from(["all", "readout", "no blocks"]),
    size=st.integers(1, 9),
)
def test_every_gradient_of_backpropagation_is_autograds(
    depth: int, width: int, expansion: int, skip: bool, out_ln: bool, parts: str, size: int
) -> None:
    flat = network(depth, width, expansion=expansion, skip=skip, out_ln=out_ln)
    expected = BlockBackprop(parts).backward(flat, *batch(size)).loss
    gradients = flat.gradients.clone()
    flat.gradients.fill_(3.0)  # what was there before must not matter
    found = WrittenBackprop(parts).backward(flat, *batch(size)).loss
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(flat.gradients, gradients, rtol=1e-9, atol=1e-12)
    assert torch.equal(flat.gradients == 0, gradients == 0) or parts == "all", "untrained parts are exactly zero"


def test_training_goes_the_same_way_and_short_batches_are_no_trouble() -> None:
    ways = []
    for rule in (BlockBackprop(), WrittenBackprop()):
        flat = network()
        for step in range(20):
            rule.backward(flat, *batch(3 if step == 19 else 8, step))
            flat.values.sub_(flat.gradients, alpha=0.1)
        ways.append(flat.values)
    torch.testing.assert_close(ways[0], ways[1], rtol=1e-8, atol=1e-11)
