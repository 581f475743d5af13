"""The proof finds out rules that are not what their plan says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from kymograph_studies.rules import RULES
from kymograph_studies.rules import proof as module
from kymograph_studies.rules.backprop import Backprop, NormalisedBackprop
from kymograph_studies.rules.base import Credit, PlanLine, Rule
from kymograph_studies.rules.baselines import Shallow
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.rules.proof import APART, linear_network, prove, with_true_chain
from tests.science.rules.networks import CASES, generator


def holds(rule: Rule, kind: str = "resmlp") -> list[bool]:
    """Returns which lines of the rule's plan hold."""
    case = CASES[kind]()
    rule.__dict__["net"] = case.net
    return [proof.holds for proof in prove(rule, case.x, case.y)]


def dfa(kind: type[DirectFeedback] = DirectFeedback, **options: Any) -> DirectFeedback:
    case = CASES["resmlp"]()
    return kind(case.net, case.rule("dfa").matrices(), **options)


class Disguised(DirectFeedback):
    """Backpropagation under the name of DFA."""

    factor = 1.0

    def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
        credit = Backprop(self.net).backward(x, y, accumulate=accumulate)
        for parameter in self.net.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(self.factor)
        return credit


class Scaled(Disguised):
    """Backpropagation under the name of DFA, a little longer."""

    factor = 1.01


class Noise(Disguised):
    """Noise under the name of DFA."""

    def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
        credit = super().backward(x, y, accumulate=accumulate)
        draw = generator(1)
        for parameter in self.net.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=draw, dtype=torch.float64)
        return credit


class Twisted(DirectFeedback):
    """DFA with its matrices in another order than its plan says, or normalised when it says it is not."""

    turned, flipped = False, False

    def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
        matrices = self.matrices()[::-1] if self.turned else self.matrices()
        rule = DirectFeedback(self.net, matrices, normalise=self.normalise != self.flipped)
        return rule.backward(x, y, accumulate=accumulate)


class Turned(Twisted):
    """The order is another."""

    turned = True


class Flipped(Twisted):
    """The normalisation is another."""

    flipped = True


@pytest.mark.parametrize("disguise", [Disguised, Scaled, Flipped])
def test_a_gradient_that_is_not_the_planned_one_is_found_out(disguise: type[DirectFeedback]) -> None:
    assert not any(holds(dfa(disguise))[:-1])


def test_noise_and_turned_matrices_are_found_out() -> None:
    assert not any(holds(dfa(Noise)))
    assert holds(dfa(Turned)) == [False, False, True, False, True], "block 1 of 3 keeps its matrix"


def test_normalised_backpropagation_is_held_to_its_plan() -> None:
    class Plain(NormalisedBackprop):
        def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
            return Backprop(self.net).backward(x, y, accumulate=accumulate)

    assert holds(Plain(CASES["resmlp"]().net)) == [False] * 4 + [True]


def test_a_rule_that_trains_what_it_should_not_is_found_out() -> None:
    class Leaking(Shallow):
        def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
            return Backprop(self.net).backward(x, y, accumulate=accumulate)

    assert holds(Leaking(CASES["resmlp"]().net)) == [False] * 4 + [True]


def test_a_plan_that_does_not_say_what_a_part_descends_does_not_hold() -> None:
    class Silent(DirectFeedback):
        def plan(self) -> list[PlanLine]:
            return [line._replace(local=None) for line in super().plan()]

    assert holds(dfa(Silent)) == [False] * 4 + [True]


@pytest.mark.parametrize("name", RULES.names())
def test_the_fast_rule_itself_is_proved_and_left_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["resmlp"]()
    rule, used = case.rule(name), []
    if hasattr(type(rule), "fill"):
        fill = type(rule).fill
        monkeypatch.setattr(type(rule), "fill", lambda self, *b: used.append(self) or fill(self, *b))
    for parameter in case.net.parameters():
        parameter.grad = torch.full_like(parameter, 3.0)
    assert all(proof.holds for proof in prove(rule, case.x, case.y))
    assert bool(used) == hasattr(type(rule), "fill") and rule not in used
    assert all(parameter.grad is not None and parameter.grad.eq(3.0).all() for parameter in case.net.parameters())


def test_the_true_chain_is_needed_for_the_equality(monkeypatch: pytest.MonkeyPatch) -> None:
    assert with_true_chain(generator(42)) < 1e-12
    state = torch.get_rng_state()
    network, chain = linear_network(generator(1))
    assert torch.equal(torch.get_rng_state(), state), "nothing is drawn from the global generator"
    monkeypatch.setattr(module, "linear_network", lambda draw: (network, chain[::-1]))
    assert with_true_chain(generator(42)) > APART
