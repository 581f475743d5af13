from __future__ import annotations

import math

import pytest
import torch

from kymograph_studies.models.flat import FlatParameters
from kymograph_studies.training.loop import ClipByNorm, Update, cosine_to_zero
from kymograph_studies.training.optimizers import SgdPerReplica


def test_an_update_reports_norms_before_clipping() -> None:
    flat = FlatParameters({"w": (2,)}, 2)
    flat.gradients.copy_(torch.tensor([[3.0, 4.0], [0.3, 0.4]]))
    norms, clipped = Update(SgdPerReplica(flat, torch.ones(2)), [ClipByNorm(torch.ones(2))], norms=True)()
    assert norms is not None and clipped is not None
    assert norms.tolist() == pytest.approx([5.0, 0.5]) and clipped.tolist() == [True, False]
    assert flat.values.norm(dim=1).tolist() == pytest.approx([1.0, 0.5])
    assert Update(SgdPerReplica(flat, torch.ones(2)))() == (None, None)


def test_the_cosine_starts_at_the_rate_halves_in_the_middle_and_would_end_at_zero() -> None:
    assert cosine_to_zero(0.2, 0, 10) == 0.2 and cosine_to_zero(0.2, 5, 10) == pytest.approx(0.1)
    assert cosine_to_zero(0.2, 10, 10) == pytest.approx(0.0) and cosine_to_zero(0.2, 9, 10) > 0
    assert math.isclose(cosine_to_zero(1.0, 1, 3), 0.75)
