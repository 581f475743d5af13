from __future__ import annotations

import math

import pytest
import torch

from kymograph_studies.analysis.metrics import class_probability, recall


def test_class_probability_is_that_of_the_samples_one_by_one_for_every_replica_and_probe() -> None:
    draw = torch.Generator().manual_seed(0)
    logits = torch.randn(5, 2, 4, 3, generator=draw)  # (probe, replica, token, class)
    counts = torch.randint(1, 6, (2, 3, 4), generator=draw).float()  # (replica, class, token)
    found = class_probability(logits, counts)
    for probe, replica, label in [(0, 0, 0), (4, 1, 2), (2, 1, 1)]:
        samples = [token for token in range(4) for _ in range(int(counts[replica, label, token]))]
        each = []
        for token in samples:
            weights = [math.exp(float(logit)) for logit in logits[probe, replica, token]]
            each.append(weights[label] / sum(weights))
        assert float(found[probe, replica, label]) == pytest.approx(sum(each) / len(each), rel=1e-6)


def test_it_is_the_recall_of_a_network_that_is_certain_and_moves_where_recall_does_not() -> None:
    counts = torch.tensor([[3.0, 1.0], [1.0, 4.0]])
    certain = 100 * torch.eye(2)
    torch.testing.assert_close(class_probability(certain, counts), recall(certain.argmax(-1), counts).double())
    weak, strong = 0.1 * torch.eye(2), torch.eye(2)
    assert torch.equal(recall(weak.argmax(-1), counts), recall(strong.argmax(-1), counts))
    assert (class_probability(weak, counts) < class_probability(strong, counts)).all()


def test_an_absent_class_is_missing() -> None:
    found = class_probability(torch.zeros(2, 2), torch.tensor([[1.0, 1.0], [0.0, 0.0]]))
    assert found[0] == 0.5 and found[1].isnan()
