"""When and how well the rare class is learned: on held-out samples, off the ceiling, and missing where it never is."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.naive import NaiveNextToken

import kymograph
from benchmarks import naive
from kymograph._errors import KymographError
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph_studies.analysis.metrics import roughness
from kymograph_studies.clipping import Clipping, training
from kymograph_studies.clipping.training import (
    EARLY_RARE_SAMPLES,
    LEARNED,
    excess_loss,
    learning_analysis,
    spike_analysis,
    steps_to_reach,
)
from kymograph_studies.models.replicas import initial_weights
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


FIELDS = {"n_samples": 120, "n_rare": 12, "epochs": 2, "probe_every": 20}
READ_EVERY = 2


def sample_by_sample(run: StoredRun) -> dict[str, list[float]]:
    """Trains a run with torch's own modules and asks it for every held-out sample, one at a time."""
    (spec,) = (spec for spec in Clipping().specs([run.seed], [run.arm], FIELDS))
    task, held = training.make_task(spec.config, run.seed), training.make_held_out(spec.config, run.seed)
    torch.manual_seed(run.seed)
    model = NaiveNextToken()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found: dict[str, list[float]] = {
        name: [] for name in ("heldout_rare_prob", "heldout_rare_acc", "heldout_rare_loss", "rare_loss")
    }
    rare_tokens = held.inputs[held.targets == 1]
    assert len(rare_tokens) == 2000
    for step in range(240):
        i = step % 120
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(task.inputs[i : i + 1]), task.targets[i : i + 1]).backward()
        if run.arm.endswith("/clip"):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % READ_EVERY == 0:
            with torch.no_grad():
                answers = model(rare_tokens).double().softmax(-1)
                seen = model(task.inputs[task.targets == 1]).double().softmax(-1)
            found["heldout_rare_prob"].append(float(answers[:, 1].mean()))
            found["heldout_rare_acc"].append(float((answers.argmax(-1) == 1).double().mean()))
            found["heldout_rare_loss"].append(float(-answers[:, 1].log().mean()))
            found["rare_loss"].append(float(-seen[:, 1].log().mean()))
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Both arms of both kinds of data, cut short."""
    arms = ["extreme/no_clip", "extreme/clip", "learnable/extreme/*"]
    out = tmp_path_factory.mktemp("learning")
    return kymograph.run("clipping", seeds=[5], arms=arms, out=out, quiet=True, **FIELDS)


def test_every_held_out_number_agrees_with_a_sample_by_sample_loop(small: Store) -> None:
    assert len(small) == 4
    for run in small:
        slow = sample_by_sample(run)
        prob, accuracy = run.series["heldout_rare_prob"], run.series["heldout_rare_acc"]
        assert prob.step.tolist() == list(range(0, 240, READ_EVERY))
        assert accuracy.step.tolist() == list(range(0, 240, FIELDS["probe_every"]))
        np.testing.assert_allclose(prob.value, slow["heldout_rare_prob"], rtol=2e-3)
        np.testing.assert_allclose(accuracy.value, slow["heldout_rare_acc"][:: FIELDS["probe_every"] // READ_EVERY])
        assert run.summary["final_heldout_rare_acc"] == accuracy.value[-1]
        for name, loss in (("rare_excess_loss", "rare_loss"), ("heldout_rare_excess_loss", "heldout_rare_loss")):
            last_epoch = slow[loss][120 // READ_EVERY :]
            expected = sum(last_epoch) / len(last_epoch) - math.log(120 / 12)
            assert run.summary[name] == pytest.approx(expected, rel=2e-3), name


def test_the_summary_is_what_the_series_say(small: Store) -> None:
    for run in small:
        summary, prob, steps = run.summary, run.series["heldout_rare_prob"].value, run.series["heldout_rare_prob"].step
        seen, early = 0, []
        for step, count in enumerate(run.series["rare_count"].value):
            early += [prob[list(steps).index(step)]] if step in steps else []
            seen += count
            if seen == EARLY_RARE_SAMPLES:
                break
        assert len(early) < len(prob)
        assert summary["early_rare_prob"] == pytest.approx(sum(early) / len(early))
        best = summary["heldout_bayes_rare_acc"]
        if run.arm.startswith("learnable"):
            assert best == pytest.approx(0.9, abs=0.03) and best != 0.9, "a frequency of fresh samples"
            assert summary["early_rare_prob_share"] == pytest.approx(summary["early_rare_prob"] / best)
        else:
            assert best == 0 and summary["early_rare_prob_share"] is None and summary["rare_steps_to_learn"] is None
        dims = run.series["effective_dim"].value
        assert summary["effective_dim_change"] == pytest.approx(dims[-1] - dims[0])
        assert summary["effective_dim_roughness"] == pytest.approx(np.diff(dims).std())


def test_measuring_more_often_changes_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stores = []
    for readings in (1, 20):
        monkeypatch.setattr(training, "READINGS_PER_PROBE", readings)
        out = tmp_path / str(readings)
        stores.append(kymograph.run("clipping", seeds=[5], arms=["learnable/extreme/*"], out=out, quiet=True, **FIELDS))
    for seldom, often in zip(*stores, strict=True):
        assert len(often.series["heldout_rare_prob"].step) == 20 * len(seldom.series["heldout_rare_prob"].step)
        for name, series in seldom.series.items():
            if name != "heldout_rare_prob":
                np.testing.assert_array_equal(series.value, often.series[name].value, err_msg=name)


def test_what_never_happens_is_missing_and_not_zero() -> None:
    steps, values = np.arange(0, 40, 10), np.array([0.1, 0.2, 0.6, 0.3])
    assert steps_to_reach(steps, values, 0.5) == 20 and steps_to_reach(steps, values, 0.05) == 0
    assert math.isnan(steps_to_reach(steps, values, 0.7))
    assert math.isnan(steps_to_reach(steps, np.full(4, np.nan), 0.5)), "a run that diverged"
    count = np.ones(40, int)
    assert math.isnan(learning_analysis(steps, values, count, 2.0)["rare_steps_to_learn"])
    learned = learning_analysis(steps, values, count, 0.6 / LEARNED)
    assert learned["rare_steps_to_learn"] == 20 and learned["early_rare_prob"] == pytest.approx(0.15)
    nothing = learning_analysis(steps, values, 0 * count, 0.0)
    assert math.isnan(nothing["rare_steps_to_learn"]) and math.isnan(nothing["early_rare_prob_share"])
    assert nothing["early_rare_prob"] == pytest.approx(0.3), "without rare samples, the whole run"
    assert excess_loss(math.log(100), 0.01) == pytest.approx(0) and math.isnan(excess_loss(5.0, 0.0))


def test_luck_does_not_pass_for_learning() -> None:
    """What an untrained network gives the rare token's class; by its most probable answer, a quarter would pass."""
    weights = [initial_weights(seed, 4, 16) for seed in range(2000)]
    logits = torch.stack([one["weight"] @ one["embedding"][3] + one["bias"] for one in weights])
    assert (logits.argmax(-1) == 1).double().mean() == pytest.approx(0.25, abs=0.02)
    assert (logits.softmax(-1)[:, 1] >= LEARNED).double().mean() < 0.002


def test_a_run_that_is_too_short_to_learn_says_so(tmp_path: Path) -> None:
    fields = {"n_samples": 60, "n_rare": 2, "epochs": 1, "probe_every": 10, "label_noise": 0.0}
    store = kymograph.run("clipping", seeds=[456], arms=["learnable/extreme/*"], out=tmp_path, quiet=True, **fields)
    missing = store.summary("rare_steps_to_learn").values
    assert np.isnan(missing).any(), "two rare samples are too few with clipping"


def test_the_early_probability_is_off_the_ceiling_where_the_final_accuracy_is_not(tmp_path: Path) -> None:
    arms = ["learnable/moderate/*"]
    store = kymograph.run("clipping", seeds=[42, 123], arms=arms, out=tmp_path, quiet=True, epochs=2)
    np.testing.assert_allclose(store.summary("final_rare_acc").values, 0.9)
    share = store.summary("early_rare_prob_share").values
    assert (share > 0.01).all() and (share < 0.99).all() and len(np.unique(share)) == share.size
    steps = store.summary("rare_steps_to_learn").values
    assert not np.isnan(steps).any() and (steps < 100).all(), "between two probes of effective dimension"


def test_detrending_leaves_the_jitter_of_the_effective_dimension() -> None:
    trend = torch.linspace(3, 2, 100, dtype=torch.float64)
    jitter = 0.01 * torch.randn(100, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    assert (trend + jitter).std() > 0.2 and roughness(trend + jitter) < 0.02


@pytest.mark.parametrize(
    ("arm", "ratio"),
    [("extreme/no_clip", 1.0), ("extreme/clip", 1.0), ("extreme/clip/0.1", 0.1), ("extreme/clip_value", None)],
)
def test_the_clipping_ratio_is_the_largest_norm_over_the_threshold(
    tmp_path: Path, arm: str, ratio: float | None
) -> None:
    (run,) = kymograph.run("clipping", seeds=[1], arms=[arm], out=tmp_path, quiet=True, **FIELDS)
    if ratio is None:
        assert run.summary["clipping_ratio"] is None, "it has no threshold for the norm"
    else:
        assert run.summary["clipping_ratio"] == pytest.approx(run.series["grad_norm"].value.max() / ratio)
