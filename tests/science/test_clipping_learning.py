"""When and how well the rare class is learned: on held-out samples, off the ceiling, and missing where it never is."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from benchmarks.naive import NaiveNextToken

import kymograph
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph_studies.analysis.metrics import roughness
from kymograph_studies.clipping import Clipping, training
from kymograph_studies.clipping.training import (
    EARLY_RARE_SAMPLES,
    LEARNED,
    excess_loss,
    learning_analysis,
    steps_to_reach,
)
from kymograph_studies.models.replicas import initial_weights

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
