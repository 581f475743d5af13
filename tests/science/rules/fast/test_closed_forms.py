"""The closed forms of the replica networks, set against autograd."""

from __future__ import annotations

import pytest
import torch

from kymograph_studies.clipping.training import epoch_batches
from kymograph_studies.data.generated import script_tokens
from kymograph_studies.models.replicas import LayerStack, NextToken, Wiring, initial_layers, initial_weights
from kymograph_studies.rules import make
from kymograph_studies.rules.fast.replicas import LayerStackBackprop, NextTokenBackprop
from kymograph_studies.rules.losses import replica_cross_entropy, replica_squared_error
from tests.science.rules.networks import generator

pytestmark = pytest.mark.filterwarnings("ignore:grad and param do not obey the gradient layout contract")
WIRINGS = {
    "plain": Wiring((None, None)),
    "residual": Wiring((1.0, 1.0)),
    "scaled": Wiring((1.0, 0.3)),
    "mixed": Wiring((None, 1.0)),
    "mixed, scaled": Wiring((None, 0.4)),
    "learned": Wiring((1.0, 1.0), learned=True),
    "prenorm": Wiring((1.0, 1.0), prenorm=True),
    "prenorm, scaled": Wiring((1.0, 0.5), prenorm=True),
}


@pytest.mark.parametrize("wiring", WIRINGS.values(), ids=WIRINGS)
def test_the_closed_form_of_a_stack_is_autograds_gradient_to_the_bit(wiring: Wiring) -> None:
    net = LayerStack(5, 8, wiring)
    for replica in range(2):
        start = initial_layers(replica, 5, 8, wiring.learned)
        # Away from the initial values, where zero biases and scales would hide mistakes.
        net.flat.fill(replica, {k: v if k.endswith("weight") else v + 0.3 for k, v in start.items()})
    plain, fast = (make("bp", net, loss=replica_squared_error, fast=fast) for fast in (False, True))
    assert isinstance(fast, LayerStackBackprop)
    for size in (7, 7, 3):  # the second pass works in memory that the first has used, the third in other memory
        x, y = torch.randn(2, 2, size, 8, generator=generator(size))
        expected = plain.backward(x, y, accumulate=False)
        gradients = net.flat.gradients.clone()
        net.flat.gradients.fill_(7.0)
        found = fast.backward(x, y, accumulate=False)
        assert torch.equal(found.loss, expected.loss) and torch.equal(found.logits, expected.logits)
        assert torch.equal(net.flat.gradients, gradients) and gradients.abs().max() > 1e-3


@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_closed_form_of_the_token_model_is_autograds_gradient(batch_size: int) -> None:
    tasks = [script_tokens(seed, 30, 6, 4) for seed in (1, 2, 3)]
    net = NextToken(3, 4, 16)
    for replica in range(3):
        net.flat.fill(replica, initial_weights(replica, 4, 16))
    plain, fast = (make("bp", net, loss=replica_cross_entropy, fast=fast) for fast in (False, True))
    assert isinstance(fast, NextTokenBackprop)
    for x, y in epoch_batches(tasks, batch_size, 16, "cpu")[:6]:
        expected = plain.backward(x, y, accumulate=False)
        gradients = net.flat.gradients.clone()
        net.flat.gradients.fill_(7.0)
        found = fast.backward(x, y, accumulate=False)
        torch.testing.assert_close(found.loss, expected.loss)
        torch.testing.assert_close(found.logits, expected.logits)
        torch.testing.assert_close(net.flat.gradients, gradients, atol=1e-7, rtol=1e-5)
