from __future__ import annotations

import math

import pytest
import torch

from kymograph_studies.analysis.flow import flow
from kymograph_studies.audit.questions import descent, perturbation_correlation
from kymograph_studies.data.images import Batches
from kymograph_studies.data.images import load_digits as digits
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.rules.backprop import Backprop
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.rules.feedback import draw_feedback
from kymograph_studies.snapshot import SnapshotConfig
from kymograph_studies.training.image_training import make_network


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=["resmlp", "vit", "conv"])
def net(request: pytest.FixtureRequest) -> BlockNetwork:
    w2_std = {"w2_std": 0.3} if request.param == "resmlp" else {}
    return make_network(SnapshotConfig(model=request.param, width=16, depth=2, **w2_std), digits(), 1)


def constant(tensors: list[torch.Tensor]):
    return lambda block: tensors[block]


def test_the_gradient_foretells_the_loss_and_chance_does_not(net: BlockNetwork) -> None:
    x, y = Batches(digits(), 8).test(64)
    gradients = flow(net, x, y)[2][1:]
    noise = [torch.randn(g.shape, generator=generator(1)) for g in gradients]
    credits = [constant(gradients), constant([-g for g in gradients]), constant(noise)]
    exact, opposite, chance = perturbation_correlation(net, x, y, credits, generator())
    assert (exact > 0.999).all()
    torch.testing.assert_close(opposite, -exact)
    assert (chance.abs() < 5 / math.sqrt(64 * 8)).all()


def test_scale_of_credit_and_of_gradient_do_not_matter(net: BlockNetwork) -> None:
    x, y = Batches(digits(), 8).test(32)
    gradients = flow(net, x, y)[2][1:]
    credits = [constant(gradients), constant([g * 1e-30 for g in gradients])]
    plain, tiny = perturbation_correlation(net, x, y, credits, generator())
    torch.testing.assert_close(plain, tiny, atol=1e-6, rtol=0)


def test_credit_without_a_direction_has_no_correlation(net: BlockNetwork) -> None:
    x, y = Batches(digits(), 8).test(16)
    nothing = [torch.zeros_like(g) for g in flow(net, x, y)[2][1:]]
    assert perturbation_correlation(net, x, y, [constant(nothing)], generator()).isnan().all()


def test_a_step_against_the_gradient_lowers_the_loss_and_leaves_the_network_alone(net: BlockNetwork) -> None:
    x, y = Batches(digits(), 8).test(64)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    exact, again, chance = descent(net, [Backprop, Backprop], x, y, generator())
    assert exact == again < 0
    assert abs(chance) < abs(exact)
    assert all(torch.equal(p, before[name]) for name, p in net.named_parameters())
    assert all(p.grad is None and p.dtype == torch.float32 for p in net.parameters())


def test_a_step_along_reversed_feedback_is_the_reversed_step() -> None:
    """To first order, turning every matrix round turns the change of the loss round."""
    net = make_network(SnapshotConfig(width=16, depth=2, w2_std=0.3), digits(), 2)
    x, y = Batches(digits(), 8).test(64)
    feedback = [matrix.double() for matrix in draw_feedback(torch.Generator().manual_seed(3), [16, 16], 10)]
    rules = [lambda twin, sign=sign: DirectFeedback(twin, [sign * b for b in feedback]) for sign in (1, -1)]
    forth, back, _ = descent(net, rules, x, y, generator())
    assert forth == pytest.approx(-back, rel=0.05)
