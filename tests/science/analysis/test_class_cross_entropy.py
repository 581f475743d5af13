from __future__ import annotations

import math

import pytest
import torch

from kymograph_studies.analysis.metrics import class_cross_entropy


def test_class_cross_entropy_is_torchs_over_the_samples_of_a_class() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 2, 4, 3, generator=draw)  # (probe, replica, token, class)
    counts = torch.randint(1, 6, (2, 3, 4), generator=draw)  # (replica, class, token)
    found = class_cross_entropy(logits, counts.float())
    for probe, replica, label in [(0, 0, 0), (4, 1, 2), (2, 1, 1)]:
        tokens = torch.arange(4).repeat_interleave(counts[replica, label])
        expected = torch.nn.functional.cross_entropy(logits[probe, replica, tokens], torch.full_like(tokens, label))
        assert float(found[probe, replica, label]) == pytest.approx(float(expected), rel=1e-5)


def test_a_predictor_of_frequencies_has_the_loss_of_the_frequency() -> None:
    logits = torch.tensor([0.99, 0.01]).log().expand(3, 2)  # the same answer to every token
    found = class_cross_entropy(logits, torch.tensor([[40.0, 30.0, 20.0], [1.0, 0.0, 0.0]]))
    assert found.tolist() == pytest.approx([-math.log(0.99), math.log(100)], rel=1e-5)


def test_an_absent_class_is_missing_and_a_hopeless_one_is_finite() -> None:
    found = class_cross_entropy(torch.tensor([[1000.0, 0.0]]), torch.tensor([[0.0], [1.0]]))
    assert found[0].isnan() and found[1] == 1000
