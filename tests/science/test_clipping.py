from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import kymograph
from benchmarks import naive
from kymograph.errors import KymographError
from kymograph.runs.store import Store
from kymograph_studies.clipping import Clipping
from kymograph_studies.clipping.training import spike_analysis
from tests.conftest import QUICK_CLIPPING

SCRIPT_NAMES = {"no_clip": "no_clip", "clip": "with_clip"}


@pytest.fixture(scope="module")
def seed_42(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The script's own set-up at its own seed, whole."""
    return kymograph.run("clipping", seeds=[42], out=tmp_path_factory.mktemp("parity"), quiet=True)


@pytest.mark.parametrize("imbalance", ["extreme", "moderate"])
@pytest.mark.parametrize("arm", ["no_clip", "clip"])
def test_every_number_of_the_script_at_seed_42(seed_42: Store, golden: Path, imbalance: str, arm: str) -> None:
    reference = json.loads((golden / "clipping_script_seed42.json").read_text())
    (run,) = seed_42.select(arms=[f"{imbalance}/{arm}"])
    name = SCRIPT_NAMES[arm]
    for key, values in reference["summary"][imbalance].items():
        assert run.summary[key] == pytest.approx(values[name], rel=1e-4, abs=1e-12), key
    script = reference["series"][imbalance][name]
    assert len(run.series["loss"].step) == script["steps"]
    for step, values in script["at"].items():
        for key, value in values.items():
            assert run.series[key].value[int(step)] == pytest.approx(value, rel=1e-4), (step, key)
    np.testing.assert_allclose(run.series["effective_dim"].value, script["effective_dim_every_100"], rtol=1e-4)
    for number in (0, 1):
        expected = script[f"class_{number}_accuracy_every_100"]
        np.testing.assert_allclose(run.series["accuracy"].value[:, number], expected, rtol=1e-6)
    rare = np.flatnonzero(run.series["rare_count"].value[:1000])
    listed = reference["series"][imbalance]["rare_positions"]  # the first twenty at most
    assert rare.tolist()[: len(listed)] == listed


@pytest.mark.parametrize("clip", [False, True])
def test_every_step_agrees_with_a_sample_by_sample_loop(tmp_path: Path, clip: bool) -> None:
    arm = "extreme/clip" if clip else "extreme/no_clip"
    fields = {"n_samples": 300, "n_rare": 9, "epochs": 2}
    store = kymograph.run("clipping", seeds=[5, 123], arms=[arm], out=tmp_path, quiet=True, **fields)
    for run in store:
        slow = naive.clipping_run(run.seed, 9, 2, clip, n_samples=300)
        for name in ("loss", "grad_norm", "weight_norm"):
            np.testing.assert_allclose(run.series[name].value, slow[name], rtol=1e-4, err_msg=name)
        np.testing.assert_allclose(run.series["weight_norm_change"].value, slow["weight_norm_change"], atol=3e-6)
        np.testing.assert_allclose(run.series["effective_dim"].value, slow["effective_dim"], rtol=1e-4)
        np.testing.assert_allclose(run.series["accuracy"].value[:, 1], slow["rare_accuracy"], rtol=1e-6)


def test_a_run_in_a_stack_equals_the_run_alone(tmp_path: Path) -> None:
    """Over arms, seeds, kinds of clipping, data and learning rates that share the stack."""
    arms = ["extreme/*", "learnable/extreme/*"]
    seeds = [1, 2, 3, 4, 5]
    stack = kymograph.run("clipping", seeds=seeds, arms=arms, out=tmp_path / "stack", quiet=True, **QUICK_CLIPPING)
    for run in stack:
        if run.seed == 3:
            (alone,) = kymograph.run(
                "clipping", seeds=[3], arms=[run.arm], out=tmp_path / "alone", quiet=True, **QUICK_CLIPPING
            )
            for name, series in run.series.items():
                np.testing.assert_allclose(series.value, alone.series[name].value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_arms_of_a_seed_differ_in_the_clipping_and_nothing_else(clipping_store: Store) -> None:
    specs = {spec.arm: spec for spec in Clipping().specs([42])}
    for imbalance in ("extreme", "moderate"):
        one, two = (specs[f"{imbalance}/{arm}"].settings for arm in ("no_clip", "clip"))
        assert {name for name in one if one[name] != two[name]} == {"clip"}
    loss = clipping_store.series("loss")
    first = loss.values[:2, :, 0]
    np.testing.assert_array_equal(first[0], first[1], err_msg="same weights, same first sample")


def test_clipping_is_counted_by_the_norm_before_it(clipping_store: Store) -> None:
    for run in clipping_store:
        expected = run.series["grad_norm"].value > 1.0 if run.arm.endswith("/clip") else np.zeros(240, bool)
        np.testing.assert_array_equal(run.series["clipped"].value.astype(bool), expected)
        moved = run.series["update_norm"].value
        factor = np.where(expected, 1 / run.series["grad_norm"].value, 1.0)
        np.testing.assert_allclose(moved, 0.1 * factor * run.series["grad_norm"].value, rtol=1e-3, atol=1e-6)


def test_absent_classes_are_missing_and_the_script_data_unlearnable(clipping_store: Store) -> None:
    accuracy = clipping_store.series("accuracy").values
    assert np.isnan(accuracy[..., 2:]).all() and not np.isnan(accuracy[..., :2]).any()
    assert (clipping_store.summary("bayes_rare_acc").values == 0).all()


def test_accuracies_are_shares_of_samples_to_the_last_bit(clipping_store: Store) -> None:
    """Of the rare class, as many samples as the run has; in float32 a third would be 0.3333333432674408."""
    for run in clipping_store:
        shares = {hits / run.config["n_rare"] for hits in range(run.config["n_rare"] + 1)}
        assert run.series["accuracy"].value.dtype == np.float64
        assert {*run.series["accuracy"].value[:, 1].tolist(), run.summary["final_rare_acc"]} <= shares


def test_the_learnable_data_are_learned(tmp_path: Path) -> None:
    store = kymograph.run("clipping", seeds=[42], arms=["learnable/moderate/*"], out=tmp_path, quiet=True)
    np.testing.assert_allclose(store.summary("bayes_rare_acc").values, 0.9)
    assert (store.summary("final_rare_acc").values > 0.85).all()
    low, high = store.summary("final_rare_acc_low").values, store.summary("final_rare_acc_high").values
    assert (low < 0.9).all() and (high > 0.9).all()


def test_the_sweeps_run_and_a_tighter_threshold_clips_more(tmp_path: Path) -> None:
    arms = ["extreme/clip*", "extreme/*/batch16", "imbalance/*"]
    fields = {name: QUICK_CLIPPING[name] for name in ("n_samples", "epochs", "probe_every")}
    store = kymograph.run("clipping", seeds=[1, 2], arms=arms[:2], out=tmp_path, quiet=True, n_rare=6, **fields)
    fraction = {arm: store.select(arms=[arm]).summary("clip_fraction").values.mean() for arm in store.arms}
    assert fraction["extreme/clip/0.1"] > fraction["extreme/clip/0.3"] > fraction["extreme/clip"] > 0
    assert fraction["extreme/clip"] > fraction["extreme/clip/3"] and fraction["extreme/clip_value"] > 0
    assert 0 < fraction["extreme/clip_adaptive"] < 0.5
    imbalance = kymograph.run("clipping", seeds=[1], arms=arms[2:], out=tmp_path, quiet=True, epochs=1)
    shares = [
        imbalance.select(arms=[f"imbalance/{p}/clip"]).summary("rare_step_share").values[0, 0] for p in (1, 5, 20, 50)
    ]
    assert shares == [0.01, 0.05, 0.2, 0.5]
    batches = store.select(arms=["extreme/clip/batch16"]).series("loss")
    assert batches.shape[2] == 2 * 8, "120 samples in 8 batches of which the last is short"


def test_spike_analysis_by_hand() -> None:
    result = spike_analysis(
        grad_norm=np.array([4.0, 1.0, 2.0, 1.0], np.float32),
        clipped=np.array([1, 0, 0, 0], np.uint8),
        update_norm=np.array([0.1, 0.1, 0.2, 0.1]),
        rare_count=np.array([1, 0, 0, 0]),
    )
    assert result["rare_grad_norm"] == 4 and result["common_grad_norm"] == 1 and result["spike_ratio"] == 4
    assert (result["rare_clip_fraction"], result["common_clip_fraction"]) == (1, 0)
    assert result["rare_effective_lr"] == pytest.approx(0.025) and result["common_effective_lr"] == pytest.approx(0.1)
    assert result["rare_step_share"] == 0.25 and result["rare_movement_share"] == pytest.approx(0.2)
    assert result["spike_auc"] == 1
    ties = spike_analysis(np.ones(4), np.zeros(4), np.ones(4), np.array([1, 0, 0, 0]))
    assert ties["spike_auc"] == 0.5
    without = spike_analysis(np.ones(2), np.zeros(2), np.ones(2), np.zeros(2))
    assert math.isnan(without["rare_grad_norm"]) and math.isnan(without["spike_auc"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"epochs": -1}, "epochs must be at least 1, not -1"),
        ({"epochs": 1.5}, "epochs must be of type int"),
        ({"lr": 0}, "lr must be above 0"),
        ({"lr": float("nan")}, "lr must be above 0"),
        ({"n_rare": 2000}, "n_rare must be between 0 and 999"),
        ({"batch_size": 5000}, "batch_size must be at most"),
        ({"label_noise": 0.7}, "label_noise must be at least 0 and below 0.5"),
        ({"lrr": 0.1}, "did you mean 'lr'"),
        ({"clip": "norm"}, "clip cannot be set: the arm .* fixes it at"),
        ({"data": "learnable"}, "data cannot be set: the arm .* fixes it at"),
    ],
)
def test_bad_settings_are_one_sentence_and_write_nothing(tmp_path: Path, fields: dict, message: str) -> None:
    with pytest.raises(KymographError, match=message) as error:
        kymograph.run("clipping", seeds=[1], out=tmp_path / "runs", quiet=True, **fields)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_a_step_size_that_explodes_is_a_divergence_and_not_a_failure(tmp_path: Path) -> None:
    store = kymograph.run("clipping", seeds=[1], out=tmp_path, quiet=True, lr=1e30, **QUICK_CLIPPING)
    assert len(store.finished) == 4 and not any(run.summary["finite"] for run in store)
    assert all(run.summary["effective_dim_std"] is None for run in store)
