from __future__ import annotations

import pytest
import torch

from kymograph_studies.analysis.metrics import roughness


def test_roughness_is_blind_to_growth_and_sees_jitter() -> None:
    line = torch.linspace(0, 100, 1000)
    assert float(roughness(line)) == pytest.approx(0, abs=1e-4)
    jitter = torch.tensor([0.0, 1.0] * 500)
    assert float(roughness(line + jitter)) == pytest.approx(1.0, rel=1e-2)
    assert float(roughness(jitter)) == pytest.approx(float(jitter.double().diff().std(correction=0)))
