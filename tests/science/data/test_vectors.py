from __future__ import annotations

import torch

from kymograph_studies.data.generated import batch_indices, random_orthogonal, vector_task


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
