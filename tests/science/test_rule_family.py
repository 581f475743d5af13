"""The study of the rule family: its arms, its data and its runs."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import kymograph
from kymograph._errors import KymographError
from kymograph._runs.store import Store
from kymograph._runs.tuned import Tuned
from kymograph._studies.loading import load_study
from kymograph._sweep.compute import Workplace
from kymograph_studies.rule_family import RuleFamily, RuleFamilyConfig
from kymograph_studies.rule_family.arms import DECAYS, EXACT, HEAD_ONLY, NETWORKS, RULES
from kymograph_studies.rule_family.claims import steps_to_angle
from kymograph_studies.rule_family.tasks import family_network, family_task
from kymograph_studies.rule_family.training import measured_steps, phases
from tests.science.data import archive

TINY = {"epochs": 1, "training_samples": 64, "validation_samples": 32, "measurements": 3, "draws": 3}
ARMS = ["mlp/fa", "mlp/shallow", "mlp/bp", "mlp/kp/strong-decay", "transformer/dfa"]


class Nobody:
    """Follows nothing."""

    def tick(self, steps: int) -> None:
        """Ignores it."""

    def say(self, text: str) -> None:
        """Ignores it."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of a few arms on few samples, one of them tuned."""
    out = tmp_path_factory.mktemp("family")
    rule = Tuned("lr", (0.01, 0.001, 0.0001), by="validation_accuracy", best="highest", seeds=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RuleFamily, "tune", {"mlp/fa": rule})
        kymograph.run("rule-family", seeds=[1, 2], arms=ARMS, out=out, engine="serial", quiet=True, **TINY)
    return out


@pytest.fixture(scope="module")
def store(root: Path) -> Store:
    return Store.open(root).select("rule-family")


def test_every_network_has_the_rules_that_tables_compare_with() -> None:
    names = [arm.name for arm in RuleFamily().arms()]
    assert {f"{network}/{rule}" for network in NETWORKS for rule in (EXACT, HEAD_ONLY, "fa", "usf", "kp", "dfa",
                                                                     "drtp")} <= set(names)  # fmt: skip
    assert {name for name in names if name.startswith("mlp/")} == {f"mlp/{rule}" for rule in RULES} | set(DECAYS)
    assert len(RULES) == 16


def test_every_arm_but_the_theorys_is_tuned_over_a_wide_declared_grid() -> None:
    study = RuleFamily()
    rules = study.tuning()
    assert {arm.name for arm in study.arms()} - set(rules) == set(DECAYS)
    for rule in rules.values():
        assert rule.by == "validation_accuracy" and len(rule.grid) >= 5
        ratios = np.array(rule.grid[:-1]) / np.array(rule.grid[1:])
        assert (ratios > 2.9).all() and (ratios < 3.5).all(), "half a decade each"


def test_each_theory_arm_is_trained_until_the_time_of_the_theory() -> None:
    for spec in RuleFamily().specs([1], list(DECAYS)):
        expected = steps_to_angle(spec.config.lr, spec.config.wd)
        assert expected is not None and expected <= spec.config.steps < 1.1 * expected


def test_the_three_sets_of_a_seed_share_no_sample_and_are_divided_anew() -> None:
    first, again, other = (family_task(RuleFamilyConfig(**TINY), seed, "cpu", None) for seed in (1, 1, 2))
    rows = [task_rows(first.fitted.x), task_rows(first.validation.x), task_rows(first.test.x)]
    assert len(first.test.y) == 1797 - 64 - 32
    assert sum(map(len, rows)) - len(set().union(*rows)) <= 2, "some digits are twice in the data set"
    assert torch.equal(first.test.x, again.test.x) and not torch.equal(first.test.x, other.test.x)


def task_rows(x: torch.Tensor) -> set[bytes]:
    return {row.numpy().tobytes() for row in x}


def test_too_many_samples_are_refused_before_anything_is_trained() -> None:
    config = RuleFamilyConfig(training_samples=1700, validation_samples=97)
    with pytest.raises(KymographError, match="leave none to test on"):
        family_task(config, 1, "cpu", None)


def test_all_rules_start_from_the_same_weights() -> None:
    for network in NETWORKS:
        data = {"data": "marked-sums"} if network == "transformer" else {}
        config = RuleFamilyConfig(network=network, width=16, **TINY, **data)  # type: ignore[arg-type]
        task = family_task(config, 3, "cpu", None)
        nets = [family_network(config, task, seed) for seed in (3, 3, 4)]
        one, same, other = (torch.cat([own.detach().flatten() for own in net.parameters()]) for net in nets)
        assert torch.equal(one, same) and not torch.equal(one, other)
        assert nets[0](task.test.x[:3]).shape == (3, task.classes)


def test_data_and_network_must_go_together() -> None:
    with pytest.raises(KymographError, match="the transformer reads marked-sums"):
        RuleFamilyConfig(network="transformer")
    with pytest.raises(KymographError, match="the transformer reads marked-sums"):
        RuleFamilyConfig(network="mlp", data="marked-sums")


def test_a_run_holds_accuracy_alignment_its_null_and_angles(store: Store) -> None:
    runs = {run.arm: run for run in store if run.seed == 1}
    fa, shallow = runs["mlp/fa"], runs["mlp/shallow"]
    assert fa.series["alignment"].sites == ("embed", "blocks.0", "blocks.1")
    assert fa.summary["alignment"] == pytest.approx(fa.series["alignment"].value[-1].mean())
    assert fa.series["alignment_null"].value.shape == (1, 3)
    assert (fa.series["alignment_null_largest"].value >= fa.series["alignment_null"].value).all()
    assert fa.summary["largest_angle"] == pytest.approx(fa.series["feedback_angle"].value[-1].max())
    assert runs["mlp/bp"].summary["alignment"] == pytest.approx(1.0)
    assert shallow.summary["alignment"] is None and shallow.summary["largest_angle"] is None
    assert "feedback_angle" not in runs["transformer/dfa"].series
    for run in runs.values():
        assert 0 <= run.summary["test_accuracy"] <= 1 and run.summary["finite"]
        assert run.series["test_accuracy"].value[-1] == pytest.approx(run.summary["test_accuracy"])
        assert run.series["stream_norm"].sites[0] == "h_0"


def test_tuning_runs_are_not_measured_on_the_way(root: Path) -> None:
    tuning = [run for run in Store.open(root) if run.study == "rule-family.tuning"]
    assert tuning and all(not run.series and run.summary["validation_accuracy"] is not None for run in tuning)
    assert {run.arm for run in tuning} == {"mlp/fa"} and len(tuning) == 3


def test_a_run_is_the_same_bits_again(store: Store) -> None:
    study = load_study("rule-family")
    run = next(run for run in store if run.arm == "mlp/fa")
    before = torch.get_num_threads()
    torch.set_num_threads(run.provenance["threads"])
    (result,) = study.train([study.typed(run.spec)], Workplace("cpu", Nobody()))
    torch.set_num_threads(before)
    for name, series in run.series.items():
        np.testing.assert_array_equal(series.value, result.series[name].value)
    assert result.summary["feedback_hash"] == run.summary["feedback_hash"]


def test_a_run_that_diverges_says_so_and_cannot_be_chosen() -> None:
    study = RuleFamily()
    spec = study.specs([1], ["resmlp/dfa"], {**TINY, "epochs": 4, "lr": 1e30})[0]
    (result,) = study.train([spec], Workplace("cpu", Nobody()))
    assert result.summary["finite"] is False and result.summary["validation_accuracy"] is None
    assert result.summary["alignment_null"] is None


def test_images_from_files_are_trained_on_too(tmp_path: Path) -> None:
    study = RuleFamily()
    config = {**TINY, "data": "cifar10", "training_samples": 40, "validation_samples": 10}
    archive.make(tmp_path)
    for arm in ("mlp/fa", "conv/dfa"):
        spec = study.specs([1], [arm], config)[0]
        (result,) = study.train([spec], Workplace("cpu", Nobody(), data_dir=tmp_path))
        assert result.summary["finite"] and result.summary["classes"] == 10


@pytest.mark.parametrize("name", ["rule-family-accuracy", "rule-family-alignment"])
def test_its_figures_are_drawn_from_runs(store: Store, name: str) -> None:
    figure = RuleFamily().figures()[name](store)
    titles = [axes.get_title() for axes in figure.axes]
    assert any(title.startswith("MLP") for title in titles)
    with pytest.raises(KymographError, match="no finished run"):
        RuleFamily().figures()[name](store.select("depth"))


def test_steps_are_measured_at_equal_ratios_from_before_training_to_the_end() -> None:
    steps = measured_steps(360, 16)
    assert steps[0] == 0 and steps[1] == 1 and steps[-1] == 360
    late = [b / a for a, b in itertools.pairwise(steps) if a >= 16]
    assert max(late) <= 1.5
    assert measured_steps(1, 5) == (0, 1)


def test_half_the_fit_is_halfway_down_on_a_logarithmic_scale() -> None:
    found = phases([0, 10, 20, 30], [1.0, 0.5, 0.09, 0.01], [0.0, 0.4, 0.3, 0.1])
    assert found["half_fit_time"] == 21 and found["alignment_peak_time"] == 11
    assert found["alignment_at_half_fit"] == 0.3 and found["alignment_after_half_fit"] == 0.1
    assert found["loss_fall"] == pytest.approx(100)


@pytest.mark.parametrize("losses", [[1.0, 1.1, 1.2], [1.0, math.nan, 0.1], [1.0, 0.5, 0.0]])
def test_without_a_fit_there_are_no_phases(losses: list[float]) -> None:
    assert set(phases([0, 1, 2], losses, [0.0, 0.1, 0.2]).values()) == {None}


def test_without_alignment_there_are_no_phases() -> None:
    assert set(phases([0, 1, 2], [1.0, 0.5, 0.1], [math.nan] * 3).values()) == {None}
