"""A trained network calibrated from its checkpoint: the numbers, the table, the file, the command."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

import kymograph
from kymograph._errors import KymographError
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph_studies.analysis import REFERENCE
from kymograph_studies.analysis.calibration import CreditCalibration
from kymograph_studies.calibration.checkpoint import (
    calibrate_checkpoint,
    fresh_at_deep_points,
    interpretation,
    over_all_points,
    table,
    to_json,
    write_calibration,
)
from kymograph_studies.scripts.logs import conclusion
from kymograph_studies.verbs import LEAST_DRAWS
from tests.cli.command import call


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> StoredRun:
    """A small network trained by DFA."""
    out = tmp_path_factory.mktemp("calibrate")
    settings = {"epochs": 1, "width": 8, "depth": 2, "draws": 19}
    return kymograph.run("calibration", seeds=[42], arms=["vanilla"], out=out, quiet=True, **settings).runs[0]


def test_a_stored_network_gives_the_numbers_of_its_run(run: StoredRun) -> None:
    found = calibrate_checkpoint(run.directory, images=2048, draws=19, seed=42)
    assert [layer.name for layer in found.layers] == ["h_0", "h_1", "h_2"] and found.draws == 19
    assert found.deep.observed == pytest.approx(run.summary["deep_cosine"], rel=1e-6)
    assert found.metadata["data"] == "digits" and found.metadata["test_accuracy"] == run.summary["test_accuracy"]
    assert next(iter(found.deep.nulls)) == REFERENCE
    again = calibrate_checkpoint(run.directory, images=2048, draws=19, nulls=["rows"], seed=42)
    assert list(again.deep.nulls) == [REFERENCE, "rows"]
    assert again.deep.nulls["rows"].mean == found.deep.nulls["rows"].mean, "a null does not depend on the others"


def test_images_that_do_not_fit_the_network_are_named(run: StoredRun) -> None:
    with pytest.raises(KymographError, match="does not take images of synthetic"):
        calibrate_checkpoint(run.directory, images=10, draws=19, data="synthetic")


def test_the_table_and_the_file_say_the_same(run: StoredRun, tmp_path: Path) -> None:
    found = calibrate_checkpoint(run.directory, images=60, draws=19)
    path, *figures = write_calibration(found, tmp_path / "out")
    content = json.loads(path.read_text())
    assert content == json.loads(json.dumps(to_json(found))) and content["interpretation"] == interpretation(found)
    text = table(found)
    assert content["interpretation"] in text and f"{content['deep']['observed']:+.4f}" in text
    assert "60 images, 19 draws" in text and {file.suffix for file in figures} == {".png", ".pdf", ".svg", ".csv"}


def test_nothing_is_said_about_gradients_without_a_direction(run: StoredRun) -> None:
    import dataclasses

    found = calibrate_checkpoint(run.directory, images=20, draws=19)
    blind = dataclasses.replace(found, deep=dataclasses.replace(found.deep, observed=math.nan))
    assert "Nothing can be said about the deep layers" in interpretation(blind)


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
    path = kymograph.export(store.select(arms=["vanilla"]), "script", tmp_path / "printed.json", seed=42)
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


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A network of the calibration script's layout, for images of 8 x 8 pixels and ten classes."""
    shapes = {"embed.weight": (4, 64), "embed.bias": (4,), "out_head.weight": (10, 4), "out_head.bias": (10,)}
    for part, shape in (("ln.weight", (4,)), ("ln.bias", (4,)), ("w1.weight", (16, 4)), ("w1.bias", (16,)),
                        ("w2.weight", (4, 16)), ("w2.bias", (4,))):  # fmt: skip
        shapes[f"blocks.0.{part}"] = shape
    draw = torch.Generator().manual_seed(0)
    state = {name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}
    path = tmp_path / "network.pt"
    torch.save({"state_dict": state, "Bs": [torch.randn(4, 10, generator=draw)], "test_acc": 0.25}, path)
    return path


def test_the_fewest_draws_can_reach_significance() -> None:
    assert 1 / (LEAST_DRAWS + 1) <= 0.05 < 1 / LEAST_DRAWS


def test_only_the_nulls_asked_for_are_drawn_and_fresh_is_always_there(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = ("calibrate", str(checkpoint), "--data", "digits", "--draws", "19", "--images", "50")
    out = str(tmp_path / "out")
    assert call(*words, "--device", "cpu", "--nulls", "rows", "-o", out) == 0
    text = capsys.readouterr().out
    assert text.startswith("test accuracy 0.2500\n") and "50 images, 19 draws" in text
    assert "rows (neurons) permuted" in text and "(classes) permuted" not in text and "fresh B" in text
    assert f"{out}/calibration.json" in text and (tmp_path / "out" / "calibration.pdf").exists()


def test_the_data_directory_is_an_argument_and_not_the_environment(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("KYMOGRAPH_DATA", raising=False)
    before, absent = dict(os.environ), str(tmp_path / "absent")
    for verb, extra in (("calibrate", ("-o", str(tmp_path / "out"))), ("audit", ("--no-ladder",))):
        assert call(verb, str(checkpoint), "--data", "cifar10", "--data-dir", absent, *extra) == 1
        assert absent in capsys.readouterr().err
    assert dict(os.environ) == before and not (tmp_path / "out").exists()
