from __future__ import annotations

import math

import pytest
import torch

from kymograph.data.batches import Batches
from kymograph.data.images import digits
from kymograph.models.blocks import BlockNetwork
from kymograph.probes.functional import descent, perturbation_correlation
from kymograph.rules.baselines import BlockBackprop
from kymograph.rules.direct import DirectFeedback, draw_feedback
from kymograph.studies.snapshot import SnapshotConfig
from kymograph.studies.snapshot.diagnose import flow
from kymograph.studies.snapshot.train import make_network


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.fixture(params=["resmlp", "vit", "conv"])
def net(request: pytest.FixtureRequest) -> BlockNetwork:
    return make_network(SnapshotConfig(model=request.param, width=16, depth=2, w2_std=0.3), digits(), 1)


def test_the_gradient_foretells_the_loss_and_chance_does_not(net: BlockNetwork) -> None:
    x, y = Batches(digits(), 8).test(64)
    gradients = flow(net, x, y)[2][1:]
    found = perturbation_correlation(net, x, y, gradients, generator())
    assert all(value > 0.999 for value in found)
    opposite = perturbation_correlation(net, x, y, [-g for g in gradients], generator())
    assert opposite == pytest.approx([-value for value in found])
    noise = [torch.randn(g.shape, generator=generator(1)) for g in gradients]
    assert all(abs(value) < 5 / math.sqrt(64 * 8) for value in perturbation_correlation(net, x, y, noise, generator()))


def test_scale_of_credit_and_of_gradient_do_not_matter(net: BlockNetwork) -> None:
    x, y = Batches(digits(), 8).test(32)
    gradients = flow(net, x, y)[2][1:]
    tiny = perturbation_correlation(net, x, y, [g * 1e-30 for g in gradients], generator())
    assert tiny == pytest.approx(perturbation_correlation(net, x, y, gradients, generator()), abs=1e-6)


def test_credit_without_a_direction_has_no_correlation(net: BlockNetwork) -> None:
    x, y = Batches(digits(), 8).test(16)
    nothing = [torch.zeros_like(g) for g in flow(net, x, y)[2][1:]]
    assert all(math.isnan(value) for value in perturbation_correlation(net, x, y, nothing, generator()))


def test_a_step_against_the_gradient_lowers_the_loss_and_leaves_the_network_alone(net: BlockNetwork) -> None:
    x, y = Batches(digits(), 8).test(64)
    before = {name: p.detach().clone() for name, p in net.named_parameters()}
    exact = BlockBackprop()
    found = descent(net, exact, exact, x, y, generator())
    assert found.change == found.exact < 0
    assert abs(found.random) < abs(found.exact)
    assert all(torch.equal(p, before[name]) for name, p in net.named_parameters())
    assert all(p.grad is None and p.dtype == torch.float32 for p in net.parameters())


def test_a_step_along_reversed_feedback_is_the_reversed_step() -> None:
    """To first order, turning every matrix round turns the change of the loss round."""
    net = make_network(SnapshotConfig(width=16, depth=2, w2_std=0.3), digits(), 1)
    x, y = Batches(digits(), 8).test(64)
    feedback = [matrix.double() for matrix in draw_feedback(3, [16, 16], 10)]
    forth, back = (
        descent(net, DirectFeedback([sign * b for b in feedback]), BlockBackprop(), x, y, generator()).change
        for sign in (1, -1)
    )
    assert forth == pytest.approx(-back, rel=0.05)
