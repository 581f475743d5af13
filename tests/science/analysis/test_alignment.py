"""Alignment of updates with the gradient, and of feedback with the weights."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn

from kymograph_studies.analysis.alignment import (
    alignment,
    angle,
    exact_gradients,
    feedback_angles,
    fresh_alignments,
    part_gradients,
)
from kymograph_studies.models import draw_model
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.rules import make
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.losses import output_error


def network(name: str = "mlp", **settings: bool) -> BlockNetwork:
    return draw_model(name, 1, 8, 10, torch.Generator().manual_seed(5), depth=2, width=8, **settings)


def batch(n: int = 24) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(6)
    return torch.randn(n, 1, 8, 8, generator=draw), torch.randint(0, 10, (n,), generator=draw)


def ruled(name: str, net: BlockNetwork) -> Rule:
    return make(name, net, generator=torch.Generator().manual_seed(7), example=batch()[0][:2])


def test_backpropagation_is_aligned_and_of_the_gradients_size() -> None:
    found = alignment(ruled("bp", network()), *batch())
    assert list(found.cosines) == ["embed", "blocks.0", "blocks.1"], "the read-out is exact under every rule"
    assert found.mean == pytest.approx(1.0) and list(found.sizes.values()) == pytest.approx([1.0] * 3)


def test_the_update_of_the_last_block_under_dfa_is_worked_out_by_hand() -> None:
    net, (x, y) = network(), batch()
    rule = ruled("dfa", net)
    points = [point.detach() for point in net.stream(x)]
    error = output_error(net(x), y) / len(y)
    active = (points[2] > 0).float()

    def update(credit: Tensor) -> Tensor:
        signal = credit * active
        return torch.cat([(signal.T @ points[1]).flatten(), signal.sum(0)]).double()

    mine, true = update(error @ rule.matrices()[1].T), update(error @ net.head.weight.detach())  # type: ignore[operator, union-attr]
    expected = float(mine @ true / (mine.norm() * true.norm()))
    found = alignment(rule, x, y)
    assert found.cosines["blocks.1"] == pytest.approx(expected, abs=1e-6)
    assert found.sizes["blocks.1"] == pytest.approx(float(mine.norm() / true.norm()), rel=1e-5)


def test_a_part_that_gets_nothing_has_no_cosine() -> None:
    found = alignment(ruled("shallow", network()), *batch())
    assert all(math.isnan(value) for value in found.cosines.values()) and math.isnan(found.mean)
    frozen = alignment(ruled("frozen", network()), *batch())
    assert frozen.cosines["embed"] == pytest.approx(1.0) and frozen.mean == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["fa", "kp", "dkp", "brsf", "random-credit", "dfa"])
def test_measuring_leaves_no_trace(name: str) -> None:
    net = network("conv", batch_norm=True)
    rule = ruled(name, net)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, weight_decay=0.1)
    rule.attach(optimizer)
    before = copy.deepcopy([net.state_dict(), rule.state_dict()])
    alignment(rule, *batch())
    fresh_alignments(name, rule, *batch(), draws=2, seed=0)
    for old, new in zip(before, [net.state_dict(), rule.state_dict()], strict=True):
        assert all(torch.equal(old[key], new[key]) for key in old)
    assert all(own.grad is None for own in net.parameters())
    rule.backward(*batch())
    optimizer.step()  # and the rule still follows its optimizer
    alignment(rule, *batch())


def test_exact_gradients_are_autograds() -> None:
    net, (x, y) = network(), batch()
    found = exact_gradients(ruled("fa", net), x, y)
    nn.functional.cross_entropy(net(x), y).backward()
    mine = torch.cat([own.grad.flatten() for own in net.blocks[0].parameters()])  # type: ignore[union-attr]
    assert torch.allclose(found["blocks.0"], mine.double())
    assert torch.allclose(part_gradients(ruled("bp", net), x, y)["blocks.0"], mine.double())


@pytest.mark.parametrize(("name", "null"), [("usf", "fa"), ("dkp", "dfa"), ("bp", "fa")])
def test_the_null_is_fresh_feedback_on_the_same_network(name: str, null: str) -> None:
    from kymograph import _streams as streams

    net, (x, y) = network(), batch()
    drawn = fresh_alignments(name, ruled(name, net), x, y, draws=3, seed=11)
    again = make(null, net, generator=streams.generator(11, "null", "fresh feedback", "2"), example=x[:2])
    assert float(drawn["embed"][2]) == pytest.approx(alignment(again, x, y).cosines["embed"])
    assert len(set(drawn["embed"].tolist())) == 3


def test_small_angles_keep_their_digits() -> None:
    for degrees in (1e-6, 1e-3, 45.0, 90.0, 179.999):
        radians = math.radians(degrees)
        turned = torch.tensor([math.cos(radians), math.sin(radians)], dtype=torch.float64)
        assert angle(torch.tensor([2.0, 0.0]), 5 * turned) == pytest.approx(degrees, rel=1e-9)
    assert math.isnan(angle(torch.zeros(3), torch.ones(3)))


def test_every_weight_that_carries_a_signal_has_an_angle() -> None:
    net = draw_model("mlp", 1, 8, 10, torch.Generator().manual_seed(0), depth=2, width=64)
    x = torch.zeros(2, 1, 8, 8)
    rule = make("fa", net, generator=torch.Generator().manual_seed(1), example=x)
    found = feedback_angles(rule)
    assert list(found) == ["blocks.0.linear.weight", "blocks.1.linear.weight", "head.weight"]
    weight, other = net.head.weight.flatten(), rule.feedback_of("head.weight").flatten()  # type: ignore[operator, union-attr]
    by_hand = math.degrees(math.acos(float((weight @ other / (weight.norm() * other.norm())).detach())))  # type: ignore[operator]
    assert found["head.weight"] == pytest.approx(by_hand, abs=1e-3)


def test_signs_of_normal_weights_are_at_their_known_angle() -> None:
    net = draw_model("mlp", 1, 8, 10, torch.Generator().manual_seed(0), depth=1, width=256)
    rule = make("usf", net, generator=torch.Generator().manual_seed(1), example=torch.zeros(2, 1, 8, 8))
    expected = math.degrees(math.acos(math.sqrt(2 / math.pi)))  # E|w| / sqrt(E w^2) of a normal weight
    assert feedback_angles(rule)["blocks.0.linear.weight"] == pytest.approx(expected, abs=0.5)


def test_rules_without_feedback_for_single_weights_have_none() -> None:
    net = draw_model("mlp", 1, 8, 10, torch.Generator().manual_seed(0), depth=1, width=8)
    for name in ("bp", "dfa", "shallow"):
        rule = make(name, net, generator=torch.Generator().manual_seed(1), example=torch.zeros(2, 1, 8, 8))
        assert feedback_angles(rule) == {}
