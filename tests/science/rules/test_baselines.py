"""Backpropagation and what is left of it in the baselines."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from kymograph._errors import KymographError
from kymograph_studies.rules import RULES
from kymograph_studies.rules.backprop import unit_rms
from tests.science.rules.networks import CASES, blocks_of, generator

PARTS = ["embed", "blocks.0", "blocks.1", "blocks.2", "readout"]
KINDS = {
    "bp": ["exact"] * 5,
    "normalised-bp": ["other"] * 4 + ["exact"],
    "dfa": ["other"] * 4 + ["exact"],
    "shallow": ["nothing"] * 4 + ["exact"],
    "frozen": ["exact"] + ["nothing"] * 3 + ["exact"],
}


@pytest.mark.parametrize("name", KINDS)
def test_the_plan_names_every_part(name: str) -> None:
    rule = CASES["resmlp"]().rule(name)
    plan = rule.plan()
    assert [line.part for line in plan] == PARTS and [line.kind for line in plan] == KINDS[name]
    trained = [part for part, kind in zip(PARTS, KINDS[name], strict=True) if kind != "nothing"]
    assert rule.trained_parts() == trained
    assert sum(map(len, (rule.parts()[part] for part in trained))) == len(rule.trained_parameters())


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    ("name", "trained"), [("bp", ("embed", "blocks", "norm", "head")), ("shallow", ("norm", "head")),
                          ("frozen", ("embed", "norm", "head"))],
)  # fmt: skip
def test_backprop_is_autograd_shallow_is_zero_inside_and_frozen_skips_the_blocks(
    name: str, trained: tuple[str, ...], fast: bool
) -> None:
    case = CASES["resmlp"]()
    named = dict(case.net.named_parameters())
    loss = nn.functional.cross_entropy(case.net(case.x), case.y)
    expected = dict(zip(named, torch.autograd.grad(loss, list(named.values())), strict=True))
    case.rule(name, fast=fast).backward(case.x, case.y, accumulate=False)
    for part, parameter in named.items():
        assert parameter.grad is not None
        if part.startswith(trained):
            torch.testing.assert_close(parameter.grad, expected[part])
        else:
            assert parameter.grad.eq(0).all(), f"{part} must be exactly zero"


@pytest.mark.parametrize("kind", ["resmlp", "vit"])
def test_normalised_backprop_keeps_directions_and_levels_sizes(kind: str) -> None:
    case = CASES[kind]()
    net = blocks_of(case.net)
    credit = case.rule("normalised-bp").backward(case.x, case.y, accumulate=False)
    points = net.stream(case.x)
    loss = nn.functional.cross_entropy(net.readout(points[-1]), case.y)
    for signal, gradient in zip(credit.at_blocks, torch.autograd.grad(loss, points)[1:], strict=True):
        rms = (signal * len(case.y)).flatten(1).square().mean(1).sqrt()
        assert rms.min() >= 0.99 and rms.max() <= 1.0
        cosine = nn.functional.cosine_similarity(signal.flatten(1), gradient.flatten(1), eps=1e-30)
        torch.testing.assert_close(cosine, torch.ones_like(cosine), rtol=1e-4, atol=0)


DIRECT = ("dfa", "sdfa", "drtp", "dkp", "penalised-dfa")


@pytest.mark.parametrize("name", [name for name in RULES.names() if name not in DIRECT])
def test_a_rule_that_hands_out_gradients_has_no_credit_of_its_own(name: str) -> None:
    rule = CASES["resmlp"]().rule(name)
    with pytest.raises(KymographError, match="passes on the gradient itself"):
        rule.credit(torch.zeros(2, 5), 0)
    assert rule.matrices() == []


def test_a_network_without_an_embed_is_trained() -> None:
    case = CASES["sequential"]()
    net = blocks_of(case.net)
    net.embed, x = nn.Identity(), torch.randn(6, 9, generator=generator(1), dtype=torch.float64)
    for name in RULES.names():
        net.zero_grad(set_to_none=True)
        case._replace(x=x).rule(name).backward(x, case.y)
        assert all(parameter.grad is not None for parameter in net.parameters())
        assert bool(net.head.weight.grad.any())  # type: ignore[union-attr]


def test_unit_rms_has_unit_rms() -> None:
    rows = torch.randn(6, 10, generator=generator(1))
    torch.testing.assert_close(unit_rms(rows).square().mean(-1), torch.ones(6), rtol=1e-4, atol=0)
