from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import kymograph
from kymograph.runs.store import Store
from kymograph_studies.analysis import REFERENCE
from kymograph_studies.analysis.calibration import CreditCalibration
from kymograph_studies.calibration import Calibration
from kymograph_studies.calibration.checkpoint import (
    calibrate_checkpoint,
    fresh_at_deep_points,
    over_all_points,
    table,
    to_json,
)
from kymograph_studies.scripts import conclusion, export_script
from tests.cli.command import call

SETTINGS = {"epochs": 1, "width": 8, "depth": 3, "draws": 39}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two small networks trained by DFA."""
    out = tmp_path_factory.mktemp("calibration")
    return kymograph.run(
        "calibration", seeds=[42], arms=["vanilla", "penalised"], out=out, quiet=True, engine="serial", **SETTINGS
    )


@pytest.fixture(scope="module")
def found(store: Store) -> CreditCalibration:
    """The first of them, calibrated again with the draws of its run."""
    return calibrate_checkpoint(store.select(arms=["vanilla"]).runs[0].directory, images=2048, draws=39, seed=42)


def script_numbers(found: CreditCalibration) -> dict[str, float]:
    """Returns what the script would print of these cosines, computed as it does."""
    training = [layer.observed for layer in found.layers]
    arr = np.array([[layer.nulls[REFERENCE].values[k] for layer in found.layers] for k in range(found.draws)])
    return {
        "layer_mean": np.mean(training),
        "deep_mean": np.mean(training[1:]),
        "fresh_deep_mean": arr[:, 1:].mean(),
        "fresh_deep_std": arr[:, 1:].std(),
        "l1_std": arr[:, 1].std(),
    }


def test_the_table_has_the_mean_over_all_points_and_the_scripts_spread(found: CreditCalibration) -> None:
    script = script_numbers(found)
    lines = table(found).splitlines()
    (row,) = [line.split() for line in lines if line.strip().startswith("mean of all")]
    assert row[3] == f"{script['layer_mean']:+.4f}" and len(row) == 7, "mean, sd and p; no closed form, no z"
    (deep,) = [line.split() for line in lines if line.strip().startswith("deep mean  ")]
    assert deep[2] == f"{script['deep_mean']:+.4f}"
    pooled = f"{script['fresh_deep_mean']:+.4f} +- {script['fresh_deep_std']:.4f}"
    assert f"fresh B at single deep points, as in the script: {pooled} over draws and points together" in lines
    assert fresh_at_deep_points(found) == pytest.approx((script["fresh_deep_mean"], script["fresh_deep_std"]))
    assert script["fresh_deep_std"] > found.deep.nulls[REFERENCE].sd, "a mean over points varies less than a point"


def test_the_mean_over_all_points_is_drawn_as_the_points_are(found: CreditCalibration) -> None:
    every = over_all_points(found)
    depth = len(found.layers) - 1
    for name, null in every.nulls.items():
        expected = (found.layers[0].nulls[name].values + depth * found.deep.nulls[name].values) / (depth + 1)
        np.testing.assert_allclose(null.values, expected)
    reached = int((every.nulls[REFERENCE].values >= every.observed).sum())
    assert every.p[REFERENCE] == (1 + reached) / (1 + found.draws) and math.isnan(every.z)
    content = json.loads(json.dumps(to_json(found)))
    assert content["all"]["observed"] == every.observed and content["all"]["closed_sd"] is None


def test_a_stored_run_gives_what_the_script_prints(store: Store, found: CreditCalibration, tmp_path: Path) -> None:
    path = export_script(store.select(arms=["vanilla"]), tmp_path / "printed.json", 42, Calibration().to_script)
    printed, script = json.loads(path.read_text()), script_numbers(found)
    training, fresh = printed["training"], printed["fresh"]
    assert printed["n_fresh"] == 39 == len(fresh["cos_mean"]) and len(fresh["cos_mean"][0]) == 4
    assert training["layer_mean"] == pytest.approx(script["layer_mean"], abs=1e-6)
    assert training["deep_mean"] == pytest.approx(script["deep_mean"], abs=1e-6)
    assert fresh["deep_mean"] == pytest.approx(script["fresh_deep_mean"], abs=1e-6)
    assert fresh["deep_std"] == pytest.approx(script["fresh_deep_std"], abs=1e-6)
    assert fresh["std_by_layer"][1] == pytest.approx(script["l1_std"], abs=1e-6)
    assert fresh["deep_mean_by_draw"] == pytest.approx(np.mean(np.array(fresh["cos_mean"])[:, 1:], 1).tolist())
    (run,) = store.select(arms=["vanilla"]).runs
    assert np.std(fresh["deep_mean_by_draw"], ddof=1) == pytest.approx(run.summary["deep_null_sd"])
    assert printed["test_acc"] == run.summary["test_accuracy"] and printed["conclusion"].startswith("real")


def test_the_command_asks_for_one_network(store: Store, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("export", str(store.root), "--to", "script", "--output", str(tmp_path / "printed.json"))
    assert call(*words) == 1
    assert "choose it with --arms and --seed (found: vanilla, penalised)" in capsys.readouterr().err
    assert call(*words, "--arms", "penalised", "--seed", "42") == 0
    assert json.loads((tmp_path / "printed.json").read_text())["network"] == "penalised at seed 42"


@pytest.mark.parametrize(
    ("mean", "word"),
    [(0.0, "real"), (-0.049, "real"), (0.05, "mixed"), (-0.1, "mixed"), (0.101, "generic"), (-0.2, "generic")],
)
def test_the_conclusion_follows_the_scripts_cut_offs(mean: float, word: str) -> None:
    assert conclusion(mean).startswith(f"{word}: ")
