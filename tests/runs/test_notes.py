"""What a reader of many runs should know."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kymograph.runs.record import RunResult, RunSeries, write_failure, write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.runs.summaries import collected_notes, same_in_all_seeds


def write(root: Path, arm: str, seed: int, last: float, *notes: str, **summary: Any) -> None:
    series = {"loss": RunSeries(np.arange(2), np.array([1.0, last]))}
    write_record(root, RunSpec("noted", arm, seed, {"lr": 0.1}, 1), RunResult(series, summary, notes=notes), {}, 1.0)


def test_notes_are_collected_with_how_many_runs_carry_them(tmp_path: Path) -> None:
    write(tmp_path, "a", 1, 0.5, "this", "that")
    write(tmp_path, "a", 2, 0.5, "this")
    assert collected_notes(Store.open(tmp_path).runs) == ["this (all 2 runs)", "that (1 of 2 runs)"]
    assert collected_notes([]) == []


def test_an_arm_that_is_the_same_in_all_seeds_is_named_with_a_number(tmp_path: Path) -> None:
    for seed in (1, 2, 3):
        write(tmp_path, "same", seed, 0.5, loss=0.25, size=3)
        write(tmp_path, "seeded", seed, 0.5 / seed, loss=0.25 / seed, size=3)
    found = same_in_all_seeds(Store.open(tmp_path).runs, ["loss"])
    assert found is not None and found.startswith("loss is 0.25 in all 3 seeds of same: the run does not seem to use")
    for seed in (1, 2, 3):
        write(tmp_path, "too", seed, 0.5, loss=0.125)
    found = same_in_all_seeds(Store.open(tmp_path).runs)
    assert found is not None and "of same, and likewise in 1 more arm:" in found


def test_numbers_that_may_well_be_the_same_are_not_pointed_out(tmp_path: Path) -> None:
    for seed in (1, 2):
        write(tmp_path, "series differ", seed, 0.5 / seed, loss=0.0)
        write(tmp_path, "summaries differ", seed, 0.5, loss=0.1 * seed)
        write_failure(tmp_path, RunSpec("noted", "failed", seed, {}, 1), "it broke", {})
    write(tmp_path, "one seed", 1, 0.5, loss=0.25)
    assert same_in_all_seeds(Store.open(tmp_path).runs) is None


def test_runs_without_a_summary_are_compared_by_their_series(tmp_path: Path) -> None:
    for seed in (1, 2):
        write(tmp_path, "same", seed, 0.5)
    found = same_in_all_seeds(Store.open(tmp_path).runs)
    assert found is not None and found.startswith("the series loss is the same in all 2 seeds of same")
