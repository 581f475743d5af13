"""Sequences with two marked tokens."""

from __future__ import annotations

import torch

from kymograph_studies.data.generated import marked_sums


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
