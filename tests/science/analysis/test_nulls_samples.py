from __future__ import annotations

import itertools
import math

import pytest
import torch
from scipy import stats

from kymograph import _streams as streams
from kymograph_studies.analysis.credit import Pairs
from kymograph_studies.analysis.nulls import draw_samples
from tests.science.analysis.worlds import ONE_MATRIX, SERVING, StudyEvidence, assert_calibrated, worlds


@pytest.mark.parametrize(("serving", "lost", "count"), [(SERVING, 0.0, 250), (ONE_MATRIX, 0.1, 100)])
def test_where_there_is_nothing_to_find_the_deep_mean_is_significant_as_often_as_it_may_be(
    serving: tuple[int, ...], lost: float, count: int
) -> None:
    """It was in 8 % of worlds, not 5 %, and in 20 % with one matrix, because every point had its own permutations."""
    assert_calibrated(draw_samples, worlds(count, serving, lost))


def test_shuffling_breaks_the_pairing_and_nothing_else() -> None:
    generator = torch.Generator().manual_seed(7)
    errors = torch.randn(300, 5, generator=generator, dtype=torch.float64)
    matrix = torch.randn(12, 5, generator=generator, dtype=torch.float64)
    world = StudyEvidence(errors, (errors @ matrix.T)[None], [matrix], [0])  # the credit is the gradient: cosine 1
    assert float(world.observed()[0]) == pytest.approx(1.0)
    null = world.drawn(draw_samples, 200, seed=2)
    assert abs(float(null.mean())) < 0.1 and float(null.max()) < 0.5


def test_a_draw_is_one_permutation_that_a_plain_loop_applies_to_every_point() -> None:
    """Points lack different gradients, and one image has no error, so it takes no part anywhere."""
    world = next(worlds(1, lost=0.2))
    world.errors[5] = 0.0
    found = world.drawn(draw_samples, 40, seed=3)
    whole = (world.gradients.abs().sum(2) > 0) & (world.errors.abs().sum(1) > 0)  # (points, n)
    assert len({tuple(row.tolist()) for row in whole}) == len(SERVING), "every point lacks other images"
    images = whole.any(0).nonzero()[:, 0].tolist()
    generator = streams.generator(3, "null", "samples")
    for k in range(40):
        order = torch.randperm(len(images), generator=generator).tolist()
        for point, index in enumerate(SERVING):
            cosines = [
                torch.nn.functional.cosine_similarity(
                    world.matrices[index] @ world.errors[images[other]], world.gradients[point, image], dim=0, eps=0.0
                )
                for image, other in zip(images, order, strict=True)
                if whole[point, image]
            ]
            assert float(found[point, k]) == pytest.approx(float(torch.stack(cosines).mean()), abs=1e-12)


def test_every_pairing_of_the_whole_stream_is_as_likely_as_the_observed_one() -> None:
    """Four images, of which the second point lacks one: 24 joint pairings, the observed one among them."""
    full = next(worlds(1, (0, 1)))
    world = StudyEvidence(full.errors[:4], full.gradients[:, :4].clone(), full.matrices, (0, 1))
    world.gradients[1, 2] = 0.0
    pairings = {}
    for order in itertools.permutations(range(4)):
        shuffled = StudyEvidence(world.errors[list(order)], world.gradients, world.matrices, (0, 1))
        pairings[tuple(shuffled.observed().mul(1e9).round().long().tolist())] = 0
    assert len(pairings) == 24
    drawn = world.drawn(draw_samples, 2400, seed=0)
    for column in drawn.T.mul(1e9).round().long().tolist():
        pairings[tuple(column)] += 1
    assert len(pairings) == 24, "no draw mixes two permutations"
    assert stats.chisquare(list(pairings.values())).pvalue > 0.01


def test_points_with_the_same_gradients_and_matrix_have_the_same_draws() -> None:
    full = next(worlds(1, (0, 0)))
    world = StudyEvidence(full.errors, full.gradients[:1].expand(2, -1, -1), full.matrices, (0, 0))
    found = world.drawn(draw_samples, 70, seed=1)
    assert torch.equal(found[0], found[1]) and len(found[0].unique()) == 70
    assert torch.equal(found, world.drawn(draw_samples, 70, seed=1)) and not torch.equal(
        found, world.drawn(draw_samples, 70, seed=2)
    )


def test_a_point_without_images_is_missing_and_disturbs_no_other() -> None:
    full = next(worlds(1, (0, 0)))
    pairs = [full.pairs[0], Pairs.of(full.errors, torch.zeros_like(full.gradients[1]))]
    found = draw_samples(pairs, full.matrices, (0, 0), 19, 1)
    assert found[1].isnan().all() and torch.equal(found[0], draw_samples(pairs[:1], full.matrices, (0,), 19, 1)[0])
    assert math.isnan(float(draw_samples(pairs[1:], full.matrices, (0,), 19, 1).mean()))
