from __future__ import annotations

import torch

from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules.backprop import Backprop
from kymograph_studies.training.loop import Update, train
from kymograph_studies.training.optimizers import Sgd
from tests.science.rules.networks import CASES


class Noting(Backprop):
    """Records every notification of an update, and the weights at that time."""

    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__(net)
        self.updates: list[tuple[int, float]] = []

    def after_update(self, step: int) -> None:
        self.updates.append((step, float(next(self.net.parameters()).detach().sum())))


def test_a_step_is_backward_then_update_then_the_rule_is_notified() -> None:
    case = CASES["resmlp"]()
    flat, rule = FlatNetwork(case.net), Noting(case.net)
    weights = []
    for step in train([(case.x, case.y)] * 3, rule, Update(Sgd(flat, 0.1)), first=7):
        weights.append(float(next(case.net.parameters()).detach().sum()))
        assert step.index == 6 + len(weights) and step.loss.shape == (1,)
    assert rule.updates == [(7, weights[0]), (8, weights[1]), (9, weights[2])] and len(set(weights)) == 3


def test_gradients_that_were_let_go_before_training_reach_the_update() -> None:
    case = CASES["resmlp"]()
    flat = FlatNetwork(case.net)
    start = flat.values.clone()
    case.net.zero_grad(set_to_none=True)
    list(train([(case.x, case.y)], case.rule("bp"), Update(Sgd(flat, 0.1))))
    assert flat.gradients.any() and not torch.equal(flat.values, start)
