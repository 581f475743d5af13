from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from kymograph.experiments.result_text import headline_table
from kymograph.runs.record import RunResult, write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.studies.loading import load_study
from tests.cli.command import COIN


def table(root: Path, rows: list[tuple[str, int, dict[str, Any], dict[str, Any]]], **facts: Any) -> str:
    """Returns the table of hand-made runs (arm, seed, settings, summary) of a study with these facts."""
    for arm, seed, settings, summary in rows:
        write_record(root, RunSpec("coin", arm, seed, settings, 1), RunResult({}, summary), {}, 1.0)
    path = root / "coin_table.py"
    path.write_text(COIN)
    kind = type(load_study(str(path)))
    return headline_table(type("Other", (kind,), facts)(), Store.open(root))


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def test_runs_with_different_settings_are_not_averaged(tmp_path: Path) -> None:
    rows = [
        ("fair", seed, {"tosses": tosses}, {"heads": tosses + seed / 10}) for tosses in (4, 8) for seed in range(10)
    ]
    lines = table(tmp_path, rows, headlines={"heads": "heads"}).splitlines()[1:]
    assert sorted(line.split("  ")[0] for line in lines) == ["fair (tosses=4)", "fair (tosses=8)"]
    means = {line.split("=")[1][0]: line.split("10  ")[1].split(" [")[0] for line in lines}
    assert means == {"4": "4.45", "8": "8.45"} and all("  10  " in line for line in lines)


def test_no_end_of_an_interval_is_written_as_a_rounder_number_than_it_is(tmp_path: Path) -> None:
    values = [1.002, 1.005, 1.008, 1.011]
    rows = [("fair", seed, {}, {"gain": value}) for seed, value in enumerate(values)]
    line = table(tmp_path, rows, headlines={"gain": "gain"}).splitlines()[1]
    assert "1.0065 [1.0003, 1.0127]" in line, "with three digits its lower end would be 1.00"


def test_p_values_are_shown_by_their_median_and_range(tmp_path: Path) -> None:
    values = [0.0123, 0.02, 0.03, 0.04, 0.87]
    rows = [("fair", seed, {}, {"chance": value}) for seed, value in enumerate(values)]
    line = table(tmp_path, rows, headlines={"chance": "p"}, p_values=("chance",)).splitlines()[1]
    assert f"median {statistics.median(values)}, range {min(values)} to {max(values)}" in line and "[" not in line


def test_the_built_in_study_with_p_values_declares_them() -> None:
    study = load_study("calibration")
    assert set(study.p_values) == {key for key in study.headlines if key.endswith("_p")}
    assert set(study.declaration().p_values) == set(study.p_values)


def test_intervals_stay_within_declared_bounds(tmp_path: Path) -> None:
    rows = [("fair", seed, {}, {"angle": value}) for seed, value in enumerate([180.0, 180.0, 120.0])]
    line = table(tmp_path, rows, headlines={"angle": "angle"}, bounds={"angle": (0.0, 180.0)}).splitlines()[1]
    low, high = line.split("[")[1].rstrip("]").split(", ")
    assert float(low) < 160 and float(high) == 180
