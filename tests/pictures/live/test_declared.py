"""What a study declares beside its runs is all that the live view knows about it; its code need not be there."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from kymograph.pictures.live.reading import read_state
from kymograph.pictures.live.state import RunCounts, traced_names
from kymograph.pictures.live.terminal import watch
from kymograph.runs.declaration import Arm, Declaration, SeriesDisplay, write_declaration
from kymograph.runs.record import RunResult, RunSeries, write_record
from kymograph.runs.spec import RunSpec
from tests.pictures.live.stage import beat, declare, fail, finish, plan, specs


def shown(root: Path) -> str:
    """Returns what `kymograph watch --once` prints."""
    file = io.StringIO()
    watch(str(root), once=True, console=Console(file=file, width=200))
    return file.getvalue()


def test_headlines_and_the_traced_names_are_those_that_study_json_declares(tmp_path: Path) -> None:
    series = (
        SeriesDisplay("per_site", "P", "p"),
        SeriesDisplay("speed", "Speed", "m/s"),
        SeriesDisplay("loss", "L", "l"),
    )
    declare(tmp_path, headlines={"gain": "gain of warmup"}, series=series, arms=(Arm("a"),))
    runs = specs(2)
    plan(tmp_path, runs)
    for run in runs:
        steps = np.arange(10)
        values = {name: RunSeries(steps, np.linspace(0, run.seed + 1, 10)) for name in ("accuracy", "loss", "speed")}
        values["per_site"] = RunSeries(steps, np.ones((10, 2)), ("x", "y"))
        write_record(tmp_path, run, RunResult(values, {"another": 7.0, "gain": run.seed + 1.0}), {}, 1.0)
    assert "warmup" not in sys.modules
    (study,) = read_state(tmp_path, 0.0).studies
    (arm,) = study.arms
    assert [(one.key, one.label, one.mean) for one in arm.headlines] == [("gain", "gain of warmup", 1.5)]
    assert arm.trace is not None and arm.trace.name == "speed", "the first declared series with one value per step"
    text = shown(tmp_path)
    assert "gain of warmup" in text and "speed, latest run" in text and "another" not in text


def test_a_study_that_declares_nothing_shows_its_first_numbers_and_its_loss(tmp_path: Path) -> None:
    (run,) = specs(1)
    finish(tmp_path, run, {f"number_{index}": float(index) for index in range(9)})
    (study,) = read_state(tmp_path, 0.0).studies
    assert [one.label for one in study.arms[0].headlines] == [f"number_{index}" for index in range(5)]
    assert study.arms[0].trace is not None and study.arms[0].trace.name == "loss"
    assert traced_names(Declaration("x", headlines={"gain": "gain"})) == ("gain", "loss")


def test_studies_come_in_the_declared_order_with_unfinished_ones_first(tmp_path: Path) -> None:
    for name, order, run_all in (("b", 2, True), ("c", 1, True), ("d", 9, False), ("a", 3, True)):
        runs = specs(2, study=name)
        plan(tmp_path, runs)
        write_declaration(tmp_path / name, Declaration(name, version=1, order=order))
        for run in runs[: 2 if run_all else 1]:
            finish(tmp_path, run)
    assert [study.name for study in read_state(tmp_path, 0.0).studies] == ["d", "c", "b", "a"]


@pytest.mark.parametrize("old", [{"version": 1, "source": "new"}, {"version": 2, "source": "old"}, {"version": 2}])
def test_superseded_runs_are_shown_apart_and_count_nowhere(tmp_path: Path, old: dict) -> None:
    declare(tmp_path, version=2, source="new", headlines={"gain": "gain"})
    earlier = [RunSpec("warmup", "a", seed, {"lr": 0.1}, **{"source": None, **old}) for seed in range(4)]
    current = [RunSpec("warmup", "a", seed, {"lr": 0.1}, 2, "new") for seed in range(3)]
    plan(tmp_path, [*earlier, *current])
    for run in earlier[:2]:
        finish(tmp_path, run, {"gain": 1000.0})
    fail(tmp_path, earlier[2])  # and the last one was never computed
    finish(tmp_path, current[0], {"gain": 1.0})
    beat(tmp_path, current[1:2])
    (study,) = read_state(tmp_path, 0.0).studies
    assert study.counts == RunCounts(finished=1, running=1, waiting=1) and study.superseded == 4
    (arm,) = study.arms
    assert arm.name == "a" and arm.headlines[0].values == (1.0,) and study.lost == ()
    assert "superseded: 4 runs" in shown(tmp_path)
    assert study.processes[0].seeds == (1,)


def test_a_new_declaration_is_read_when_it_replaces_the_old_one(tmp_path: Path) -> None:
    (run,) = specs(1)
    plan(tmp_path, [run])
    finish(tmp_path, run, {"gain": 1.0, "loss": 2.0})
    declare(tmp_path, headlines={"gain": "first"})
    assert read_state(tmp_path, 0.0).studies[0].arms[0].headlines[0].label == "first"
    declare(tmp_path, headlines={"loss": "then"})
    assert read_state(tmp_path, 0.0).studies[0].arms[0].headlines[0].label == "then"


def test_a_record_is_read_once_until_it_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = specs(3)
    plan(tmp_path, runs)
    for run in runs:
        finish(tmp_path, run)
    first = read_state(tmp_path, 0.0)
    reads: list[Path] = []
    plain = os.open
    monkeypatch.setattr(os, "open", lambda path, *how, **more: (reads.append(Path(path)), plain(path, *how, **more))[1])
    assert read_state(tmp_path, 0.0) == first and reads == []
    finish(tmp_path, runs[0], {"spike_ratio": 50.0})
    (study,) = read_state(tmp_path, 0.0).studies
    assert study.arms[0].headlines[0].values == (50.0, 2.0, 3.0)
    assert {path.parent.name for path in reads if path.suffix == ".json"} == {Path(runs[0].directory).name}
