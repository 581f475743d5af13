"""One source of variance at a time: what has the run's seed, and what the fixed one."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

import kymograph
from kymograph._runs.record import RunResult
from kymograph._sweep.compute import Workplace
from kymograph._sweep.progress import Progress
from kymograph_studies.snapshot import Snapshot
from kymograph_studies.training.image_study import FIXED_SEED, ImageSettings, SourceSeeds, seeds_by_source
from kymograph_studies.training.image_training import fit, result
from kymograph_studies.training.trained_networks import load

QUICK = {"epochs": 1, "width": 8, "depth": 2, "batch_size": 512, "checkpoint_every": 0}
SOURCES = [field.name for field in dataclasses.fields(SourceSeeds)]


def test_the_choices_are_the_sources_and_all_of_them() -> None:
    assert list(get_args(get_type_hints(ImageSettings)["vary"])) == ["all", *SOURCES]


@pytest.mark.parametrize("vary", SOURCES)
def test_one_source_has_the_seed_and_the_others_the_fixed_one(vary: str) -> None:
    seeds = dataclasses.asdict(seeds_by_source(7, vary))
    fixed = {**dict.fromkeys(SOURCES, FIXED_SEED), "split": None}
    assert seeds == {**fixed, vary: 7}


def test_all_sources_have_the_seed_over_the_data_sets_own_split() -> None:
    assert seeds_by_source(7, "all") == SourceSeeds(7, 7, 7, None)


@functools.cache
def trained(arm: str, vary: str, seed: int) -> RunResult:
    (spec,) = Snapshot().specs([seed], [arm], {**QUICK, "vary": vary})
    work = Workplace("cpu", Progress("", 1, 1, quiet=True), Path("."))  # nothing is written without checkpoints
    return result(spec, fit(spec, spec.config, work))


def differing(vary: str, arm: str = "resmlp/dfa") -> set[str]:
    """Returns in which marks of its sources two seeds of a run differ."""
    one, other = (trained(arm, vary, seed).summary for seed in (FIXED_SEED, 7))
    return {
        key for key in ("initial_h_L", "feedback_hash", "data_digest", "train_loss") if one.get(key) != other.get(key)
    }


def test_a_run_changes_in_what_is_varied_and_in_its_consequences() -> None:
    assert differing("initialisation") == {"initial_h_L", "train_loss"}
    assert differing("order") == {"train_loss"}
    assert differing("feedback") == {"feedback_hash", "train_loss"}
    # Norms are measured on test images, which are others then.
    assert differing("split") == {"initial_h_L", "data_digest", "train_loss"}
    assert differing("all") == {"initial_h_L", "feedback_hash", "train_loss"}


def test_at_the_fixed_seed_all_sources_give_the_same_run() -> None:
    def numbers(vary: str) -> dict[str, Any]:
        return dict(trained("resmlp/dfa", vary, FIXED_SEED).summary)

    for vary in ("initialisation", "order", "feedback"):
        assert numbers(vary) == numbers("all")
    assert numbers("split")["data_digest"] != numbers("all")["data_digest"]


def test_feedback_does_nothing_under_backpropagation() -> None:
    one, other = (trained("resmlp/bp", "feedback", seed) for seed in (FIXED_SEED, 7))
    assert one.summary == other.summary


def test_each_source_is_drawn_as_it_is_when_all_vary() -> None:
    """The weights of seed 7 are the same whether the seed decides them alone or everything, and so are the matrices."""
    everything = trained("resmlp/dfa", "all", 7).summary
    assert trained("resmlp/dfa", "initialisation", 7).summary["initial_h_L"] == everything["initial_h_L"]
    assert trained("resmlp/dfa", "feedback", 7).summary["feedback_hash"] == everything["feedback_hash"]


def test_a_network_of_another_split_is_measured_on_images_it_has_not_seen(tmp_path: Path) -> None:
    """It used to be measured on the data set's own test images, most of which it was trained on."""
    store = kymograph.run("snapshot", [7], arms=["resmlp/dfa"], out=tmp_path, quiet=True, epochs=1, width=8, depth=2,
                          vary="split")  # fmt: skip
    (run,) = store.finished
    trained = load(run.directory / "checkpoint.safetensors")
    task = trained.task(None, None)
    assert task.digest() == run.summary["data_digest"]
    assert trained.task("synthetic", None).name == "synthetic"
