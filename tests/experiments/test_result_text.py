"""What is printed after a sweep: headline numbers and failures."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kymograph._experiments.result_text import failure_text, headline_table
from kymograph._runs.record import RunResult, write_failure
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._studies.loading import load_study
from kymograph._sweep.compute import RunOutcome
from tests.cli.command import COIN
from tests.records import write_record


def table(root: Path, rows: list[tuple[str, int, dict[str, Any], dict[str, Any]]], **attributes: Any) -> str:
    """Returns the table of hand-made runs (arm, seed, settings, summary) of a study with these attributes."""
    for arm, seed, settings, summary in rows:
        write_record(root, RunSpec("coin", arm, seed, settings, 1), RunResult({}, summary), {}, 1.0)
    path = root / "coin_table.py"
    path.write_text(COIN)
    kind = type(load_study(str(path)))
    return headline_table(type("Other", (kind,), attributes)(), Store.open(root))


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


def test_intervals_stay_within_declared_bounds(tmp_path: Path) -> None:
    rows = [("fair", seed, {}, {"angle": value}) for seed, value in enumerate([180.0, 180.0, 120.0])]
    line = table(tmp_path, rows, headlines={"angle": "angle"}, bounds={"angle": (0.0, 180.0)}).splitlines()[1]
    low, high = line.split("[")[1].rstrip("]").split(", ")
    assert float(low) < 160 and float(high) == 180


def failures(root: Path, reasons: Sequence[str], trace: str | None) -> list[RunOutcome]:
    specs = [RunSpec("broken", "bad", seed, {}, 1) for seed in range(len(reasons))]
    for spec, reason in zip(specs, reasons, strict=True):
        write_failure(root, spec, reason, {}, trace)
    return [RunOutcome(spec.id, "failed", reason) for spec, reason in zip(specs, reasons, strict=True)]


def test_a_reason_is_shown_once_with_the_first_of_its_runs(tmp_path: Path) -> None:
    found = failures(tmp_path, ["it broke", "it burst", "it broke", "it broke"], None)
    for order in (found, found[::-1]):
        lines = failure_text(order, Store.open(tmp_path), "runs").splitlines()
        assert set(lines[:2]) == {
            "  failed: bad, seed 0 and 2 other runs: it broke",
            "  failed: bad, seed 1: it burst",
        }
        assert len(lines) == 3 and "`kymograph show --dir runs --status failed`" in lines[2]


def test_reasons_beyond_the_first_five_are_counted(tmp_path: Path) -> None:
    found = failures(tmp_path, [f"reason {index}" for index in range(6)] + ["reason 5"], None)
    lines = failure_text(found, Store.open(tmp_path), "runs").splitlines()
    assert len(lines) == 7 and lines[5] == "  and 2 more"
    assert failure_text([], Store([]), "runs") == ""


def test_debug_shows_each_traceback_once(tmp_path: Path) -> None:
    found = failures(tmp_path, ["it broke", "it burst"], "Traceback\n  here\n")
    lines = failure_text(found, Store.open(tmp_path), "runs", debug=True).splitlines()
    assert lines == [
        "  failed: bad, seed 0: it broke",
        "    Traceback",
        "      here",
        "  failed: bad, seed 1: it burst",
        "    the traceback is that of bad, seed 0",
    ]


def test_a_process_that_died_left_no_traceback(tmp_path: Path) -> None:
    found = failures(tmp_path, ["it broke"], None)
    assert "no traceback: its process ended" in failure_text(found, Store.open(tmp_path), "runs", debug=True)
