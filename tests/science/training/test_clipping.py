from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph_studies.training.loop import ClipByNorm, ClipByPercentile, ClipByValue, ClipParts

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
