from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.scale import Measured, Shape

from benchmarks import scale
from kymograph._claims.judge import judge
from kymograph._runs.history import SWEEP
from kymograph._runs.log import Log
from kymograph._runs.store import Store
from kymograph._sharing.verify import all_hold, verify

FEW = Shape("few", 2, 7)


def test_the_runs_are_as_real_ones_and_no_two_have_the_same_numbers(tmp_path: Path) -> None:
    scale.make_runs(tmp_path, FEW)
    store = Store.open(tmp_path)
    assert len(store) == FEW.runs == 70 and len(store.finished) == 70 and len(store.arms) == 5
    assert len({run.summary["final_loss"] for run in store if run.arm == "plain"}) == 14
    assert all_hold(verify(tmp_path))
    assert {verdict.registration.split(",")[0] for verdict in judge(tmp_path)} == {"registered"}
    again = tmp_path / "again"
    scale.make_runs(again, FEW)
    for run, other in zip(store, Store.open(again), strict=True):
        assert run.id == other.id and run.summary == other.summary


def test_a_limit_that_is_not_kept_fails_the_bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(scale, "make_runs", lambda root, shape: None)
    monkeypatch.setattr(scale, "measure_recording", lambda root: [])
    for cost, code in ((4.9, 0), (5.0, 1)):
        monkeypatch.setattr(scale, "measure", lambda root, shape, cost=cost: [Measured("few", "judge", cost, 5.0)])
        assert scale.bench_scale([FEW]) == code
        assert ("NOT KEPT" in capsys.readouterr().out) is bool(code)


def test_recording_is_measured_early_and_late_and_in_a_log_of_many_processes(tmp_path: Path) -> None:
    rows = list(scale.measure_recording(tmp_path, 6, paired=2))
    assert [row.unit for row in rows] == ["ms", "ms", "s", "s"] and all(row.cost > 0 for row in rows[:3])
    log = Log.read(tmp_path / "many")
    assert len(log.of_kind(SWEEP)) == 6 + 1 and not log.problems


def test_the_cost_is_that_of_the_process_and_a_failure_is_said() -> None:
    assert 0.01 < scale.cpu_seconds(["--version"]) < 30
    with pytest.raises(scale.KymographError, match="judge"):
        scale.cpu_seconds(["judge", "no-such-directory"])
