"""Run ids do not change: those of the demo are the ones that commit 22fc599 stored."""

from __future__ import annotations

import json
from pathlib import Path

from kymograph._experiments.running import choose_seeds
from kymograph._runs.spec import RunSpec
from kymograph._studies.loading import load_study
from kymograph_studies.reproduce import SEEDS, stages


def labelled(specs: list[RunSpec]) -> dict[str, dict[str, str]]:
    """Returns the runs' ids by arm, with the settings in which runs of the arm differ, and by seed."""
    ids: dict[str, dict[str, str]] = {}
    for spec in specs:
        same_arm = [other.settings for other in specs if other.arm == spec.arm]
        settings = [
            f"{name}={value}"
            for name, value in sorted(spec.settings.items())
            if any(other[name] != value for other in same_arm)
        ]
        ids.setdefault(", ".join([spec.arm, *settings]), {})[str(spec.seed)] = spec.id
    return ids


def test_the_ids_of_all_demo_runs_are_what_they_were(golden: Path) -> None:
    expected = json.loads((golden / "demo_run_ids.json").read_text())
    specs: dict[str, list[RunSpec]] = {}
    for stage in stages("digits", quick=False, epochs=None):
        seeds = choose_seeds(None, SEEDS)[: stage.most_seeds]
        specs.setdefault(stage.study, []).extend(load_study(stage.study).specs(seeds, stage.arms, stage.fields))
    assert {study: labelled(of_study) for study, of_study in specs.items()} == expected
    assert sum(len(ids) for arms in expected.values() for ids in arms.values()) == 290
