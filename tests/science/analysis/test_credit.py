from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph_studies.analysis.credit import Pairs, closed_form_sd


def data(seed: int, n: int = 60, d: int = 12, c: int = 5, common: float = 0.5) -> tuple[torch.Tensor, torch.Tensor]:
    """Errors and gradients that share a direction, as those of a trained network do."""
    draw = torch.Generator().manual_seed(seed)
    errors = torch.randn(n, c, generator=draw, dtype=torch.float64) + common * torch.randn(1, c, generator=draw)
    gradients = torch.randn(n, d, generator=draw, dtype=torch.float64) + common * torch.randn(1, d, generator=draw)
    return errors, gradients


@given(st.integers(0, 1000), st.sampled_from([1e-30, 1.0, 1e20]), st.sampled_from([5, 40]))
def test_batched_cosines_are_those_of_a_plain_loop_whatever_the_scale(seed: int, scale: float, classes: int) -> None:
    errors, gradients = data(seed, c=classes)
    matrices = torch.randn(3, 12, classes, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    found = Pairs.of(errors / scale, gradients * scale).mean_cosines(matrices)
    for matrix, value in zip(matrices, found, strict=True):
        cosines = torch.nn.functional.cosine_similarity(errors @ matrix.T, gradients, eps=0.0)
        assert float(value) == pytest.approx(float(cosines.mean()), rel=1e-9, abs=1e-12)


def test_rows_without_a_direction_are_left_out_and_counted() -> None:
    errors, gradients = data(1)
    gradients[3], gradients[5, 0], errors[7] = 0.0, math.nan, 0.0
    pairs = Pairs.of(errors, gradients)
    assert pairs.below_floor == 3 and len(pairs.errors) == 57
    kept = [image for image in range(60) if image not in (3, 5, 7)]
    assert pairs.images.tolist() == kept
    torch.testing.assert_close(pairs.gradients, torch.nn.functional.normalize(gradients[kept]))


@pytest.mark.parametrize(("seed", "common"), [(1, 0.0), (2, 0.5), (3, 3.0)])
def test_the_closed_form_agrees_with_two_thousand_draws(seed: int, common: float) -> None:
    pairs = Pairs.of(*data(seed, n=200, d=128, c=10, common=common))
    fresh = torch.randn(2000, 128, 10, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    sampled = float(pairs.mean_cosines(fresh).std())
    assert closed_form_sd([pairs.alignment()]) == pytest.approx(sampled, rel=0.08)


def test_the_closed_form_is_the_double_sum_over_pairs_of_images() -> None:
    pairs = Pairs.of(*data(4))
    e, g = pairs.errors, pairs.gradients
    double_sum = float(((e @ e.T) * (g @ g.T)).mean()) / 12
    assert closed_form_sd([pairs.alignment()]) == pytest.approx(math.sqrt(double_sum), rel=1e-12)


def test_points_that_share_a_matrix_add_before_they_are_squared() -> None:
    one, two = (Pairs.of(*data(seed, n=200, d=64, c=10, common=2.0)) for seed in (5, 6))
    fresh = torch.randn(2000, 64, 10, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    sampled = float(((one.mean_cosines(fresh) + two.mean_cosines(fresh)) / 2).std())
    assert closed_form_sd([one.alignment(), two.alignment()]) == pytest.approx(sampled, rel=0.08)


@pytest.mark.parametrize("model", ["resmlp", "vit", "conv"])
def test_the_closed_form_agrees_with_two_thousand_draws_on_three_networks(model: str) -> None:
    """Trained a little, so that errors and gradients have structure: without it any form would do."""
    from kymograph_studies.analysis.calibration import errors_and_gradients
    from kymograph_studies.data.images import Batches
    from kymograph_studies.data.images import load_digits as digits
    from kymograph_studies.snapshot import SnapshotConfig
    from kymograph_studies.training.image_training import make_network

    config = SnapshotConfig(model=model, width=64 if model == "resmlp" else 16, depth=2, out_ln=model != "conv")
    net = make_network(config, digits(), 1)
    batches = Batches(digits(), 128)
    parameters = list(net.parameters())
    for x, y in batches.epoch(1, 0):
        loss = torch.nn.functional.cross_entropy(net(x), y)
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data -= 0.05 * gradient
    error, gradients = errors_and_gradients(net, *batches.test(128))
    draw = torch.Generator().manual_seed(0)
    for gradient in gradients:
        pair = Pairs.of(error, gradient)
        draws = torch.randn(2000, gradient.shape[1], 10, generator=draw) / 10**0.5
        sampled = float(pair.mean_cosines(draws).std())
        assert closed_form_sd([pair.alignment()]) == pytest.approx(sampled, rel=0.05)


def test_draws_in_float32_give_what_float64_gives() -> None:
    draw = torch.Generator().manual_seed(0)
    pair = Pairs.of(torch.randn(300, 10, generator=draw), torch.randn(300, 64, generator=draw) * 1e-25)
    stack = torch.randn(40, 64, 10, generator=draw)
    single, double = pair.mean_cosines(stack), pair.mean_cosines(stack.double())
    assert single.dtype == torch.float64
    assert float((single - double).abs().max()) < 1e-7
