from __future__ import annotations

import math

import pytest
import torch

from kymograph_studies.analysis.metrics import recall


def test_recall_counts_samples_and_leaves_absent_classes_missing() -> None:
    counts = torch.tensor([[3.0, 1.0, 0.0], [0.0, 1.0, 4.0], [0.0, 0.0, 0.0]])  # (class, token)
    found = recall(torch.tensor([0, 0, 1]), counts)
    assert found[:2].tolist() == pytest.approx([1.0, 0.8])
    assert math.isnan(found[2])


def test_recall_is_that_of_the_samples_one_by_one_for_every_replica_and_probe() -> None:
    draw = torch.Generator().manual_seed(0)
    predictions = torch.randint(0, 3, (5, 2, 4), generator=draw)  # (probe, replica, token)
    counts = torch.randint(1, 6, (2, 3, 4), generator=draw)  # (replica, class, token)
    found = recall(predictions, counts.float())
    for probe, replica, label in [(0, 0, 0), (4, 1, 2), (2, 1, 1)]:
        samples = [token for token in range(4) for _ in range(int(counts[replica, label, token]))]
        correct = sum(int(predictions[probe, replica, token]) == label for token in samples)
        assert float(found[probe, replica, label]) == pytest.approx(correct / len(samples))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_recall_is_in_double_precision_whatever_the_counts_are_in(dtype: torch.dtype) -> None:
    counts = torch.tensor([[1, 2], [4, 3]]).to(dtype)
    found = recall(torch.tensor([0, 1]), counts)
    assert found.dtype == torch.float64 and found.tolist() == [1 / 3, 3 / 7]
    large = torch.tensor([[2**24, 1], [0, 1]]).to(dtype)
    assert float(recall(torch.tensor([0, 1]), large)[0]) == 2**24 / (2**24 + 1), "float32 cannot count that far"
