"""Angles of weights and their feedback."""

from __future__ import annotations

import math

import pytest
import torch

from kymograph_studies.analysis.alignment import angle, feedback_angles
from kymograph_studies.models import draw_model
from kymograph_studies.rules import make


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
