from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kymograph.data.tokens import RARE_CLASS, TokenTask, learnable_tokens, script_tokens


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
