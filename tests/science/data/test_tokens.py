from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph_studies.data.generated import (
    RARE_CLASS,
    TokenTask,
    learnable_held_out,
    learnable_tokens,
    script_held_out,
    script_tokens,
)


def test_the_script_data_have_the_scripts_rare_positions() -> None:
    task = script_tokens(42, 1000, 10, 4)
    assert (task.targets == RARE_CLASS).nonzero()[:, 0].tolist() == [
        25,
        104,
        114,
        142,
        228,
        250,
        281,
        654,
        754,
        759,
    ]


@pytest.mark.parametrize("n_rare", [10, 200])
def test_the_scripts_rare_class_cannot_be_learned_and_the_other_can(n_rare: int) -> None:
    for seed in range(5):
        assert script_tokens(seed, 1000, n_rare, 4).bayes_recall()[RARE_CLASS] == 0
        assert learnable_tokens(seed, 1000, n_rare, 4, 0.1).bayes_recall()[RARE_CLASS] == pytest.approx(0.9)


@given(st.integers(0, 100), st.integers(2, 60), st.floats(0, 0.49))
def test_label_noise_goes_both_ways_and_keeps_the_imbalance(seed: int, n_rare: int, noise: float) -> None:
    task = learnable_tokens(seed, 200, n_rare, 4, noise)
    counts = task.counts()
    assert counts.sum() == 200 and counts[RARE_CLASS].sum() == n_rare
    wrong = round(noise * n_rare)
    assert counts[RARE_CLASS, 3] == n_rare - wrong
    assert counts[0, 3] == wrong


def test_bayes_recall_of_an_absent_class_is_missing() -> None:
    task = TokenTask(torch.tensor([0, 1, 1]), torch.tensor([0, 1, 1]), 3)
    assert task.bayes_recall()[:2].tolist() == [1, 1]
    assert math.isnan(task.bayes_recall()[2])


def test_held_out_samples_are_fresh_and_shared_by_the_arms_of_a_seed() -> None:
    one, again = (learnable_held_out(42, 2000, 1000, 10, 4, 0.1) for _ in range(2))
    other = learnable_held_out(123, 2000, 1000, 10, 4, 0.1)
    assert torch.equal(one.inputs, again.inputs) and not torch.equal(one.inputs, other.inputs)
    train = learnable_tokens(42, 1000, 10, 4, 0.1)
    assert not torch.equal(one.inputs[:1000], train.inputs), "not the training data over again"
    assert torch.equal(learnable_tokens(42, 1000, 10, 4, 0.1).inputs, train.inputs), "drawing them shifts nothing"
    for task in (one, script_held_out(42, 2000, 4)):
        assert task.counts().sum(1).tolist() == [2000, 2000, 0, 0]


@pytest.mark.parametrize(("n_rare", "noise"), [(10, 0.1), (200, 0.1), (200, 0.4), (500, 0.0)])
def test_held_out_samples_follow_the_law_of_the_training_data(n_rare: int, noise: float) -> None:
    train = learnable_tokens(7, 1000, n_rare, 4, noise).counts()
    fresh = learnable_held_out(7, 40_000, 1000, n_rare, 4, noise).counts()
    expected = train[:2, 3] / train[:2].sum(1)  # how often either class carries the rare token
    torch.testing.assert_close(fresh[:2, 3] / 40_000, expected, atol=0.01, rtol=0)
    others = fresh[:2, :3] / fresh[:2, :3].sum(1, keepdim=True)
    if noise > 0 and fresh[1, :3].sum() > 1000:
        torch.testing.assert_close(others, torch.full_like(others, 1 / 3), atol=0.03, rtol=0)
    script = script_held_out(7, 40_000, 4).counts()[:2] / 40_000
    torch.testing.assert_close(script, torch.full_like(script, 0.25), atol=0.01, rtol=0)


def test_nothing_announces_a_class_that_is_absent() -> None:
    assert learnable_held_out(1, 500, 100, 0, 4, 0.1).counts()[:, 3].sum() == 0
    assert learnable_tokens(1, 100, 0, 4, 0.1).counts()[:, 3].sum() == 0


def test_the_bayes_answers_are_the_classes_most_common_at_each_token() -> None:
    task = TokenTask(torch.tensor([0, 0, 0, 1, 2, 2, 2]), torch.tensor([1, 1, 0, 0, 2, 2, 1]), 3)
    assert task.bayes_answers().tolist() == [1, 0, 2]
    assert learnable_tokens(3, 1000, 10, 4, 0.1).bayes_answers().tolist() == [0, 0, 0, 1]
    assert script_tokens(3, 1000, 10, 4).bayes_answers().tolist() == [0, 0, 0, 0]
