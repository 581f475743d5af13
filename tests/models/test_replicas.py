"""The networks with a replica axis: closed forms against autograd, and one replica against many."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph.data.tokens import script_tokens
from kymograph.models.flat import FlatParameters
from kymograph.models.next_token import NextToken, initial_weights
from kymograph.models.stacks import LayerStack, Wiring, initial_layers
from kymograph.rules.backprop import ClosedForm, mean_squared_error
from kymograph.studies.clipping.train import epoch_batches
from tests.rules.autograd import Backprop

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


def filled(wiring: Wiring, layers: int = 5, width: int = 8) -> LayerStack:
    net = LayerStack(layers, width, wiring)
    for replica in range(len(wiring.scales)):
        start = initial_layers(replica, layers, width, wiring.learned)
        # Away from the initial values, where zero biases and scales would hide mistakes.
        net.flat.fill(replica, {k: v if k.endswith("weight") else v + 0.3 for k, v in start.items()})
    return net


@pytest.mark.filterwarnings("ignore:grad and param do not obey the gradient layout contract")
@pytest.mark.parametrize("wiring", WIRINGS.values(), ids=WIRINGS)
def test_the_closed_form_of_a_stack_is_autograds_gradient_to_the_bit(wiring: Wiring) -> None:
    net = filled(wiring)
    x, y = torch.randn(2, 2, 7, 8, generator=torch.Generator().manual_seed(1))
    for _ in range(2):  # the second pass works in memory that the first has used
        loss = Backprop(mean_squared_error).backward(net, x, y).loss
        gradients = net.flat.gradients.clone()
        net.flat.gradients.fill_(7.0)
        assert torch.equal(ClosedForm().backward(net, x, y).loss, loss)
        assert torch.equal(net.flat.gradients, gradients)
        assert gradients.abs().max() > 1e-3


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


@pytest.mark.filterwarnings("ignore:grad and param do not obey the gradient layout contract")
@pytest.mark.parametrize("batch_size", [1, 3])
def test_the_closed_form_of_the_token_model_is_autograds_gradient(batch_size: int) -> None:
    tasks = [script_tokens(seed, 30, 6, 4) for seed in (1, 2, 3)]
    net = NextToken(3, 4, 16)
    for replica in range(3):
        net.flat.fill(replica, initial_weights(replica, 4, 16))

    def loss(logits: torch.Tensor, targets) -> torch.Tensor:
        flat = nn.functional.cross_entropy(logits.flatten(0, 1), targets.index, reduction="none")
        return flat.view(3, -1).mean(1)

    for x, y in epoch_batches(tasks, batch_size, 16, "cpu"):
        expected = Backprop(loss).backward(net, x, y).loss
        gradients = net.flat.gradients.clone()
        net.flat.gradients.fill_(7.0)
        torch.testing.assert_close(ClosedForm().backward(net, x, y).loss, expected)
        torch.testing.assert_close(net.flat.gradients, gradients, atol=1e-7, rtol=1e-5)


def test_initial_weights_are_torchs_defaults_under_that_seed() -> None:
    state = torch.get_rng_state()
    torch.manual_seed(42)
    embedding, linear = nn.Embedding(4, 16), nn.Linear(16, 4)
    torch.set_rng_state(state)
    ours = initial_weights(42, 4, 16)
    assert torch.equal(ours["embedding"], embedding.weight)
    assert torch.equal(ours["weight"], linear.weight) and torch.equal(ours["bias"], linear.bias)


def test_a_line_holds_each_parameter_of_all_replicas_together() -> None:
    flat = FlatParameters({"w": (2,), "b": ()}, 3, rows=False)
    for replica in range(3):
        flat.fill(replica, {"w": torch.full((2,), replica + 1.0), "b": torch.tensor(-replica - 1.0)})
    assert flat.values.tolist() == [1, 1, 2, 2, 3, 3, -1, -2, -3]
    assert flat.views["w"].is_contiguous() and flat.gradient_views["w"].is_contiguous()


def test_views_share_the_matrix_and_replicas_do_not_meet() -> None:
    flat = FlatParameters({"w": (2, 3), "b": ()}, 2)
    flat.fill(1, {"w": torch.ones(2, 3), "b": torch.tensor(5.0)})
    assert flat.values[0].eq(0).all() and flat.values[1].tolist() == [1] * 6 + [5]
    assert flat.views["w"].shape == (2, 2, 3) and flat.views["b"].shape == (2,)
    with pytest.raises(ValueError, match="expected parameters"):
        flat.fill(0, {"w": torch.ones(2, 3)})
