"""Generated tasks: tokens, marked sums and vectors."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph_studies.data.generated import (
    RARE_CLASS,
    TokenTask,
    batch_indices,
    learnable_held_out,
    learnable_tokens,
    marked_sums,
    random_orthogonal,
    script_held_out,
    script_tokens,
    vector_task,
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


def test_the_class_is_the_sum_of_the_two_marked_values() -> None:
    task = marked_sums(7, 500, values=6, length=9)
    assert task.vocab == 18 and task.tokens.shape == (500, 9)
    for tokens, label in zip(task.tokens.tolist(), task.labels.tolist(), strict=True):
        first = [token - 6 for token in tokens if 6 <= token < 12]
        second = [token - 12 for token in tokens if token >= 12]
        assert len(first) == len(second) == 1
        assert (first[0] + second[0]) % 6 == label


def test_marks_are_at_every_position_and_classes_are_even() -> None:
    task = marked_sums(7, 4000, values=4, length=5)
    where = (task.tokens >= 4).double().mean(0)
    assert (where - 2 / 5).abs().max() < 0.04
    assert (task.labels.bincount() / 4000 - 0.25).abs().max() < 0.03


def test_a_linear_read_out_of_the_tokens_present_stays_near_chance() -> None:
    task = marked_sums(1, 4000, values=5, length=8)
    present = torch.zeros(4000, task.vocab).scatter_add_(1, task.tokens, torch.ones(task.tokens.shape))
    target = torch.nn.functional.one_hot(task.labels, 5).float()
    weights = torch.linalg.lstsq(present[:2000], target[:2000]).solution
    right = (present[2000:] @ weights).argmax(1) == task.labels[2000:]
    assert right.double().mean() < 0.35, "chance is 0.2"


def test_a_seed_is_one_data_set() -> None:
    one, again, other = (marked_sums(seed, 50, values=5, length=6) for seed in (3, 3, 4))
    assert torch.equal(one.tokens, again.tokens) and torch.equal(one.labels, again.labels)
    assert not torch.equal(one.tokens, other.tokens)


def test_the_rotation_is_orthogonal_and_fixed_by_the_seed() -> None:
    rotation = random_orthogonal(3, 32)
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(32), atol=1e-5, rtol=0)
    assert torch.equal(rotation, random_orthogonal(3, 32))
    assert not torch.equal(rotation, random_orthogonal(4, 32))


def test_both_tasks_share_inputs_and_differ_in_targets() -> None:
    identity, rotated = (vector_task(7, kind, 50, 16, 8) for kind in ("identity", "orthogonal"))
    assert torch.equal(identity.inputs, rotated.inputs) and torch.equal(identity.probe_inputs, rotated.probe_inputs)
    assert torch.equal(identity.targets, identity.inputs)
    torch.testing.assert_close(rotated.targets.norm(dim=1), rotated.inputs.norm(dim=1))
    assert identity.inputs.abs().max() <= 1
    assert not torch.equal(identity.inputs[:8], identity.probe_inputs)


def test_batches_are_the_same_for_every_arm_and_a_prefix_of_longer_ones() -> None:
    rows = batch_indices(5, 10, 4, 100)
    assert rows.shape == (10, 4) and rows.min() >= 0 and rows.max() < 100
    assert torch.equal(rows, batch_indices(5, 10, 4, 100))
