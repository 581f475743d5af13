"""The training loop, clipping, the update and the trace of the weights."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph_studies.models.flat import FlatNetwork, FlatParameters
from kymograph_studies.rules.backprop import Backprop
from kymograph_studies.training.loop import (
    ClipByNorm,
    ClipByPercentile,
    ClipByValue,
    ClipParts,
    Update,
    WeightTrace,
    cosine_to_zero,
    train,
)
from kymograph_studies.training.optimizers import Sgd, SgdPerReplica
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


@pytest.mark.parametrize("steps", [1, 7, 50, 51, 120])
def test_the_trace_measures_every_step_whatever_its_blocks(steps: int) -> None:
    draw = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 5, generator=draw)
    states = [weights.clone()]
    trace = WeightTrace(weights, keep_every=10, block=50)
    for _ in range(steps):
        weights += 0.1 * torch.randn(3, 5, generator=draw)
        trace.record()
        states.append(weights.clone())
    path = torch.stack(states).double()
    torch.testing.assert_close(trace.norms(), path[1:].norm(dim=-1))
    torch.testing.assert_close(trace.moves(), path.diff(dim=0).norm(dim=-1))
    assert torch.equal(trace.kept(), torch.stack(states[1::10]))


def test_an_update_reports_norms_before_clipping() -> None:
    flat = FlatParameters({"w": (2,)}, 2)
    flat.gradients.copy_(torch.tensor([[3.0, 4.0], [0.3, 0.4]]))
    norms, clipped = Update(SgdPerReplica(flat, torch.ones(2)), [ClipByNorm(torch.ones(2))], norms=True)()
    assert norms is not None and clipped is not None
    assert norms.tolist() == pytest.approx([5.0, 0.5]) and clipped.tolist() == [True, False]
    assert flat.values.norm(dim=1).tolist() == pytest.approx([1.0, 0.5])
    assert Update(SgdPerReplica(flat, torch.ones(2)))() == (None, None)


def test_the_cosine_starts_at_the_rate_halves_in_the_middle_and_would_end_at_zero() -> None:
    assert cosine_to_zero(0.2, 0, 10) == 0.2 and cosine_to_zero(0.2, 5, 10) == pytest.approx(0.1)
    assert cosine_to_zero(0.2, 10, 10) == pytest.approx(0.0) and cosine_to_zero(0.2, 9, 10) > 0
    assert math.isclose(cosine_to_zero(1.0, 1, 3), 0.75)


INF = float("inf")


def rows(*norms: float) -> torch.Tensor:
    """Gradients with the given row norms."""
    return torch.tensor(norms)[:, None] * torch.tensor([[0.6, 0.8]])


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5), st.floats(1e-3, 1e3))
def test_clipping_by_norm_shortens_what_is_longer_and_keeps_directions(norms: list[float], limit: float) -> None:
    gradients = rows(*norms)
    before = gradients.clone()
    measured = torch.linalg.vector_norm(gradients, dim=1)
    fired = ClipByNorm(torch.full((len(norms),), limit))(gradients, measured)
    after = torch.linalg.vector_norm(gradients, dim=1)
    assert torch.equal(fired, measured > limit)
    assert torch.equal(gradients[~fired], before[~fired]), "an unclipped gradient keeps its bits"
    torch.testing.assert_close(after[fired], torch.full_like(after[fired], limit))
    torch.testing.assert_close(gradients[:, 1] / gradients[:, 0], before[:, 1] / before[:, 0])


def test_clipping_by_norm_agrees_with_torch_except_for_torchs_epsilon() -> None:
    parameter = torch.zeros(2, requires_grad=True)
    parameter.grad = torch.tensor([3.0, 4.0])
    torch.nn.utils.clip_grad_norm_([parameter], 1.0)
    ours = torch.tensor([[3.0, 4.0]])
    ClipByNorm(torch.tensor([1.0]))(ours, torch.tensor([5.0]))
    torch.testing.assert_close(ours[0], parameter.grad, rtol=1e-6, atol=0)


@pytest.mark.parametrize("norm", [0.0, 1.0, 1e-30])
def test_an_infinite_threshold_and_one_just_reached_change_no_bit(norm: float) -> None:
    gradients = rows(norm, norm)
    before = gradients.clone()
    assert not ClipByNorm(torch.tensor([INF, 1.0]))(gradients, torch.tensor([norm, norm])).any()
    assert torch.equal(gradients, before)


def test_clipping_by_value_clamps_entries() -> None:
    gradients = torch.tensor([[3.0, -0.2], [3.0, -0.2], [0.1, 0.2]])
    fired = ClipByValue(torch.tensor([0.5, INF, 0.5]))(gradients, gradients.norm(dim=1))
    assert fired.tolist() == [True, False, False]
    torch.testing.assert_close(gradients, torch.tensor([[0.5, -0.2], [3.0, -0.2], [0.1, 0.2]]))


def test_adaptive_clipping_cuts_at_a_percentile_of_its_own_past() -> None:
    clip = ClipByPercentile(torch.tensor([INF, 50.0]), window=4)
    for norm in (1.0, 2.0):  # filling half the window: nothing is clipped
        gradients = rows(norm, norm)
        assert not clip(gradients, torch.tensor([norm, norm])).any()
    gradients = rows(10.0, 10.0)
    fired = clip(gradients, torch.tensor([10.0, 10.0]))
    assert fired.tolist() == [False, True]
    assert gradients.norm(dim=1)[0] == pytest.approx(10.0)
    assert 1.0 <= gradients.norm(dim=1)[1] <= 2.0
    gradients = rows(0.5, 0.5)  # a small gradient is never lengthened
    assert not clip(gradients, torch.tensor([0.5, 0.5])).any()
    assert gradients.norm(dim=1).tolist() == pytest.approx([0.5, 0.5])


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=6), st.floats(1e-3, 1e3))
def test_parts_are_clipped_each_on_its_own_whether_they_are_alike_or_not(values: list[float], limit: float) -> None:
    for spans in ([slice(0, 2), slice(2, 4)], [slice(0, 2), slice(2, 5)], [slice(0, 2), slice(4, 6)]):
        gradients = torch.tensor([values], dtype=torch.float64)
        before = gradients.clone()
        fired = ClipParts(spans, limit)(gradients, None)
        norms = [float(before[0, span].norm()) for span in spans]
        assert fired.tolist() == [any(norm > limit for norm in norms)]
        inside = torch.zeros(6, dtype=torch.bool)
        for span, norm in zip(spans, norms, strict=True):
            inside[span] = True
            factor = min(1.0, limit / norm) if norm else 1.0
            torch.testing.assert_close(gradients[0, span], before[0, span] * factor, rtol=1e-9, atol=0)
        assert torch.equal(gradients[0, ~inside], before[0, ~inside])
