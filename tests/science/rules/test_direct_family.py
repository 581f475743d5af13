"""The relatives of DFA against their equations, on an MLP, and on outputs that have positions."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph_studies.rules import make
from kymograph_studies.rules.proof import prove
from tests.science.rules.networks import generator

F = nn.functional
X, Y = torch.randn(6, 5, generator=generator(0)), torch.tensor([0, 2, 1, 1, 0, 2])


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 3))


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("dfa", lambda error: error),
        ("sdfa", lambda error: error.sign()),
        ("drtp", lambda error: F.one_hot(Y, 3).float()),
        ("dkp", lambda error: error),
    ],
)
def test_the_gradients_are_those_of_the_equations(name: str, sent) -> None:
    """delta_l = (B_l s) * phi', with s the error, its sign or the target; the last layer is exact."""
    net = mlp()
    rule = make(name, net, loss=F.cross_entropy, generator=generator(1))
    rule.backward(X, Y)
    with torch.no_grad():
        z1 = net[0](X)
        h2 = net[2](z1.relu()).tanh()
        error = net[4](h2).softmax(-1) - F.one_hot(Y, 3)
        embed, block = rule.state_dict()["embed_feedback"], rule.matrices()[0]
        delta1 = sent(error) @ embed.T * (z1 > 0) / len(Y)
        delta2 = sent(error) @ block.T * (1 - h2**2) / len(Y)
    torch.testing.assert_close(net[0].weight.grad, delta1.T @ X)
    torch.testing.assert_close(net[2].weight.grad, delta2.T @ z1.relu())
    torch.testing.assert_close(net[4].weight.grad, error.T @ h2 / len(Y))
    torch.testing.assert_close(rule.direction(error, 0), sent(error) @ block.T)


def test_a_penalty_is_a_switch_of_dfa() -> None:
    one, two = mlp(), mlp()
    two.load_state_dict(one.state_dict())
    make("penalised-dfa", one, generator=generator(1)).backward(X, Y)
    make("dfa", two, generator=generator(1), normalise=True, penalty=0.01).backward(X, Y)
    assert torch.equal(one[2].weight.grad, two[2].weight.grad)


def per_token(outputs: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(outputs.flatten(0, 1), y.flatten())


@pytest.mark.parametrize("name", ["dfa", "sdfa", "drtp", "dkp", "random-credit"])
def test_every_position_hands_on_its_own_error(name: str) -> None:
    net = nn.Sequential(nn.Embedding(9, 6), nn.Sequential(nn.Linear(6, 6), nn.Tanh()), nn.Linear(6, 9))
    tokens = torch.randint(0, 9, (4, 5), generator=generator(3))
    rule = make(name, net, loss=per_token, generator=generator(1))
    credit = rule.backward(tokens, tokens)
    assert credit.at_blocks[0].shape == (4, 5, 6)
    proofs = prove(rule, tokens, tokens)
    assert all(proof.as_planned for proof in proofs)
    if name == "dfa":
        error = (credit.logits.softmax(-1) - F.one_hot(tokens, 9)) / tokens.numel()
        torch.testing.assert_close(credit.at_blocks[0], error @ rule.matrices()[0].T)


def test_targets_that_are_no_targets_are_refused() -> None:
    rule = make("drtp", mlp(), loss=lambda z, y: (z.sum(1) - y).square().mean(), generator=generator(1))
    with pytest.raises(KymographError, match="targets must be class indices of shape"):
        rule.backward(X, torch.zeros(6))
