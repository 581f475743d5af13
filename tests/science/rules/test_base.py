"""Rules that learn or redraw their feedback: what they take from an optimizer's steps, and what they say without."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

from kymograph._errors import KymographError
from kymograph_studies.rules import make
from kymograph_studies.rules.base import Rule
from tests.science.rules.networks import generator

F = nn.functional
X, Y = torch.randn(12, 5, generator=generator(0)).double(), torch.randint(0, 3, (12,), generator=generator(1))
OPTIMIZERS = {
    "sgd": lambda own: torch.optim.SGD(own, lr=0.1, weight_decay=0.3),
    "momentum": lambda own: torch.optim.SGD(own, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.3),
    "adam": lambda own: torch.optim.Adam(own, lr=0.01, weight_decay=0.3),
    "adamw": lambda own: torch.optim.AdamW(own, lr=0.01, weight_decay=0.3),
}


def mlp() -> nn.Sequential:
    layers = [nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 3)]
    return nn.Sequential(*layers).double()


def rule_on(net: nn.Module, name: str, **options: float) -> Rule:
    return make(name, net, loss=F.cross_entropy, generator=generator(2), **options)


def angle(one: Tensor, two: Tensor) -> float:
    cosine = F.cosine_similarity(one.detach().flatten(), two.detach().flatten(), dim=0)
    return float(torch.rad2deg(torch.acos(cosine)))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_kolen_pollack_takes_the_step_of_the_weights_with_the_decay_of_its_own(optimizer: str) -> None:
    net = mlp()
    rule = rule_on(net, "kp")
    steps = OPTIMIZERS[optimizer](net.parameters())
    rule.attach(steps)
    decay = steps.param_groups[0]["lr"] * 0.3
    for _ in range(4):
        weights, feedback = copy.deepcopy(net.state_dict()), copy.deepcopy(rule.feedback_tensors())
        steps.zero_grad()
        rule.backward(X, Y)
        steps.step()
        for name in ("2.weight", "4.weight"):
            step = net.get_parameter(name).detach() - weights[name]
            expected = feedback[name] + (step + decay * weights[name]) - decay * feedback[name]
            torch.testing.assert_close(rule.feedback_tensors()[name], expected)
            gap = net.get_parameter(name).detach() - rule.feedback_tensors()[name]
            torch.testing.assert_close(gap, (1 - decay) * (weights[name] - feedback[name]))


def test_under_sgd_kolen_pollack_is_the_rule_as_published() -> None:
    """W <- (1 - lam) W - eta dW and B <- (1 - lam) B - eta dW, from one and the same gradient."""
    net = mlp()
    rule = rule_on(net, "kp")
    steps = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.3)
    rule.attach(steps)
    before = rule.feedback_tensors()["4.weight"].clone()
    rule.backward(X, Y)
    gradient = net[4].weight.grad.clone()
    steps.step()
    torch.testing.assert_close(rule.feedback_tensors()["4.weight"], (1 - 0.03) * before - 0.1 * gradient)


def test_kolen_pollack_turns_into_backpropagation() -> None:
    net = mlp()
    rule = rule_on(net, "kp")
    steps = torch.optim.SGD(net.parameters(), lr=1.0, weight_decay=0.03)
    rule.attach(steps)
    first = angle(rule.feedback_tensors()["4.weight"], net[4].weight)
    for _ in range(120):
        steps.zero_grad()
        rule.backward(X, Y)
        steps.step()
    assert first > 45 and angle(rule.feedback_tensors()["4.weight"], net[4].weight) < 10


def test_the_weight_mirror_finds_the_weights_and_not_more_exactly_than_its_noise_allows() -> None:
    net = nn.Sequential(nn.Linear(5, 40), nn.Tanh(), nn.Linear(40, 30), nn.Tanh(), nn.Linear(30, 3)).double()
    rule = rule_on(net, "wm")
    rule.backward(X, Y)
    for step in range(600):
        rule.after_update(step)
    tangent = torch.tan(torch.deg2rad(torch.tensor(angle(rule.feedback_tensors()["2.weight"], net[2].weight))))
    expected = (0.01 * 40 / (2 * 32)) ** 0.5
    assert expected / 1.3 < float(tangent) < 1.3 * expected
    ratio = rule.feedback_tensors()["2.weight"].std() / net[2].weight.detach().std()
    assert float(ratio) == pytest.approx(1, abs=0.1), "neither grows nor shrinks"


def test_direct_kolen_pollack_learns_as_a_readout_of_each_point() -> None:
    net = mlp()
    rule = rule_on(net, "dkp")
    steps = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.3)
    rule.attach(steps)
    before = rule.matrices()[0].clone()
    with torch.no_grad():
        h = net[:4](X)  # the output of the only block
        error = net(X).softmax(-1) - F.one_hot(Y, 3)
    rule.backward(X[:8], Y[:8], accumulate=False)  # replaced by the next
    rule.backward(X, Y, accumulate=False)
    steps.step()
    torch.testing.assert_close(rule.matrices()[0], (1 - 0.03) * before - 0.1 * h.T @ error / len(Y))


def test_magnitudes_and_noise_are_drawn_anew_with_every_update_and_not_between() -> None:
    for name in ("brsf", "random-credit"):
        net = mlp()
        rule = rule_on(net, name)
        found = []
        for step in range(2):
            for _ in range(2):
                rule.backward(X, Y, accumulate=False)
                found.append(next(net.parameters()).grad.clone())
            rule.after_update(step)
        assert torch.equal(found[0], found[1]) and torch.equal(found[2], found[3])
        assert not torch.allclose(found[0], found[2])


def test_random_credit_has_the_size_of_direct_feedback_and_no_direction() -> None:
    net = nn.Sequential(nn.Linear(5, 400), nn.Linear(400, 400), nn.Linear(400, 3)).double()
    noise, direct = rule_on(net, "random-credit").backward(X, Y), rule_on(net, "dfa").backward(X, Y)
    assert float(noise.at_blocks[0].norm() / direct.at_blocks[0].norm()) == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("name", ["kp", "wm", "brsf", "dkp", "random-credit"])
def test_a_rule_that_nobody_tells_of_the_updates_says_so(name: str) -> None:
    net = mlp()
    rule = rule_on(net, name)
    steps = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.3)
    with pytest.raises(KymographError, match=rf"{name} changes its feedback with every update; call rule.attach"):
        for _ in range(5):
            rule.backward(X, Y)
            steps.step()


def test_rules_that_learn_from_the_steps_need_an_optimizer_and_kolen_pollack_its_decay() -> None:
    for name in ("kp", "dkp"):
        rule = rule_on(mlp(), name)
        rule.backward(X, Y)
        with pytest.raises(KymographError, match=rf"{name} learns its feedback from the steps"):
            rule.after_update(0)
    net = mlp()
    rule = rule_on(net, "kp")
    steps = torch.optim.SGD(net.parameters(), lr=0.1)
    rule.attach(steps)
    rule.attach(steps)  # once more is not twice
    rule.backward(X, Y)
    with pytest.raises(KymographError, match="kp needs weight decay"):
        steps.step()
    with pytest.raises(KymographError, match="already follows another optimizer"):
        rule.attach(torch.optim.SGD(net.parameters(), lr=0.1))
