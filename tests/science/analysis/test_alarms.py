from __future__ import annotations

import math

import numpy as np
import pytest

import kymograph
from kymograph_studies.analysis.alarms import active_alarms, first_epochs, growth_per_block


def row(epoch: int, hidden: list[float], gradient: float, error: float) -> dict:
    return {"epoch": epoch, "hidden_norms": hidden, "grad_norms": [1.0, gradient], "error_norm": error}


def test_growth_is_the_largest_step_of_the_stream() -> None:
    assert growth_per_block([1.0, 3.0, 6.0, 3.0]) == 3.0
    assert math.isnan(growth_per_block([math.nan, math.nan]))
    assert growth_per_block([0.0, 1.0]) == math.inf


def test_each_alarm_rings_for_its_own_reason_and_keeps_its_first_epoch() -> None:
    rows = [
        row(0, [1.0, 2.0], 1.0, 0.9),
        row(1, [1.0, 51.0], 1.0, 0.9),
        row(2, [1.0, 2.0], 1e-5, 1e-5),  # small because the errors are: the published alarm rings, ours does not
        row(3, [1.0, 2.0], 1e-5, 0.9),
        row(4, [1.0, 99.0], 1e-9, 0.9),
    ]
    assert first_epochs(rows, 1024) == {"growth": 1, "gradient": 2, "reference": 3}
    assert first_epochs(rows[:1], 1024) == {"growth": None, "gradient": None, "reference": None}
    assert active_alarms(row(5, [math.nan, math.nan], math.nan, math.nan), 1024) == []


def test_a_run_keeps_the_epochs_of_its_alarms(tmp_path) -> None:
    store = kymograph.run(
        "snapshot",
        seeds=[42],
        arms=["resmlp/bp", "resmlp/dfa"],
        out=tmp_path,
        quiet=True,
        engine="serial",
        epochs=6,
        width=16,
        lr=0.3,
    )
    for run in store:
        norms = np.asarray(run.series["stream_norm"].value)
        epochs = run.series["stream_norm"].step
        grown = epochs[(norms[:, 1:] / norms[:, :-1]).max(1) > 50]
        assert run.summary["alarm_growth_epoch"] == (int(grown[0]) if len(grown) else None)
        assert run.series["error_norm"].value[0] == pytest.approx(0.95, abs=0.1)
    assert store.select(arms=["resmlp/dfa"]).runs[0].summary["alarm_growth_epoch"] is not None
