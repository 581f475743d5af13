"""What the studies declare: stored as data, with bounds of their numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

import kymograph
from kymograph._runs.declaration import read_declaration, write_declaration
from kymograph._runs.summaries import arm_headlines
from kymograph._studies.loading import load_study


@pytest.mark.parametrize("study", kymograph.list_studies(), ids=lambda study: study.name)
def test_every_registered_study_declares_itself_as_data(tmp_path: Path, study: kymograph.Study) -> None:
    write_declaration(tmp_path, study.declaration())
    back = read_declaration(tmp_path)
    assert back is not None and back.to_json() == study.declaration().to_json()
    assert back.question and back.headlines and back.series and back.source is None
    assert back.declared_fields.keys() == {arm.name for arm in study.arms()}


@pytest.mark.parametrize(
    ("study", "number"),
    [
        ("snapshot", "final_g_2_script"),
        ("calibration", "final_h_L"),
        ("clipping", "effective_dim_std"),
        ("depth", "fresh_loss_over_null"),
        ("rule-family", "growth_per_block"),
    ],
)
def test_no_norm_or_error_of_a_built_in_study_has_an_interval_below_zero(study: str, number: str) -> None:
    """On CIFAR-10 the gradient under random targets was said to lie in [-1.14e-09, 6.59e-09]."""
    values = [{number: value} for value in (1e-12, 1e-11, 1e-8)]
    assert arm_headlines(values, [number])[number].low < 0
    bounded = arm_headlines(values, [number], load_study(study).bounds)[number]
    assert bounded.low == 0 and bounded.high > bounded.mean > 0
