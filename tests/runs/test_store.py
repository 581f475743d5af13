from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kymograph
from kymograph.errors import KymographError
from kymograph.runs.archive import select
from kymograph.runs.formats import export
from kymograph.runs.record import RunResult, RunSeries, write_failure, write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph_studies.clipping import Clipping
from tests.conftest import QUICK_CLIPPING


def test_series_have_axes_arm_seed_step_and_site(clipping_store: Store) -> None:
    loss = clipping_store.series("loss")
    assert loss.axes == ("arm", "seed", "step")
    assert loss.shape == (4, 3, 240)
    accuracy = clipping_store.series("accuracy")
    assert accuracy.axes == ("arm", "seed", "step", "site")
    assert accuracy.labels["site"] == ("class_0", "class_1", "class_2", "class_3")
    run = next(run for run in clipping_store if run.arm == "extreme/clip" and run.seed == 123)
    np.testing.assert_array_equal(loss.sel(arm="extreme/clip", seed=123).values, run.series["loss"].value)
    assert np.array_equal(np.asarray(loss), loss.values, equal_nan=True)


def test_runs_of_different_length_are_padded_with_missing(tmp_path: Path) -> None:
    fields = {k: v for k, v in QUICK_CLIPPING.items() if k != "epochs"}
    kymograph.run("clipping", seeds=[1], arms=["extreme/clip"], out=tmp_path, quiet=True, epochs=1, **fields)
    kymograph.run("clipping", seeds=[1], arms=["moderate/clip"], out=tmp_path, quiet=True, epochs=2, **fields)
    loss = Store.open(tmp_path).series("loss")
    assert loss.shape == (2, 1, 240)
    assert np.isnan(loss.sel(arm="extreme/clip").values[0, 120:]).all()
    assert not np.isnan(loss.sel(arm="moderate/clip").values).any()


def test_two_settings_of_one_arm_are_never_mixed(tmp_path: Path) -> None:
    for lr in (0.1, 0.2):
        kymograph.run("clipping", seeds=[1], arms=["extreme/clip"], out=tmp_path, quiet=True, lr=lr, **QUICK_CLIPPING)
    store = Store.open(tmp_path)
    with pytest.raises(KymographError, match=r"several values of lr; choose one with store.where"):
        store.series("loss")
    assert store.where(lr=0.2).series("loss").shape[:2] == (1, 1)
    with pytest.raises(KymographError, match="did you mean 'lr'"):
        store.where(lrr=0.2)
    with pytest.raises(KymographError, match=r"no run has lr=0.3"):
        store.where(lr=0.3)


def test_versions_of_a_study_are_never_mixed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    options = {"arms": ["extreme/clip"], "out": tmp_path, "quiet": True, **QUICK_CLIPPING}
    monkeypatch.setattr(Clipping, "version", 0)
    kymograph.run("clipping", seeds=[1, 2], **options)
    monkeypatch.undo()
    kymograph.run("clipping", seeds=[1], **options)
    both = Store.open(tmp_path)
    with pytest.raises(KymographError, match=r"several values of version; choose one with store.where\(version="):
        both.series("loss")
    assert both.current().seeds == (1,) and both.where(version=0).seeds == (1, 2)
    assert select(tmp_path).seeds == (1,)
    assert "2 superseded runs, of older versions" in capsys.readouterr().err
    assert select(tmp_path, where={"version": 0}).seeds == (1, 2)
    assert not capsys.readouterr().err


def test_labels_that_are_not_there_are_named(clipping_store: Store) -> None:
    with pytest.raises(KymographError, match="did you mean 'grad_norm'"):
        clipping_store.series("grad_nrom")
    with pytest.raises(KymographError, match="no arm 'extreme/clp'"):
        clipping_store.series("loss").sel(arm="extreme/clp")
    with pytest.raises(KymographError, match="no axis"):
        clipping_store.series("loss").sel(arms="extreme/clip")
    with pytest.raises(KymographError, match="did you mean 'final_loss'"):
        clipping_store.summary("final_los")


def test_summary_and_selection(clipping_store: Store) -> None:
    final = clipping_store.summary("final_loss")
    assert final.shape == (4, 3)
    part = clipping_store.select(arms=["moderate/clip", "extreme/clip"], seeds=[456, 42])
    assert [(run.arm, run.seed) for run in part] == [
        ("moderate/clip", 456), ("extreme/clip", 456), ("moderate/clip", 42), ("extreme/clip", 42)
    ]  # fmt: skip


def test_stores_and_runs_show_well(clipping_store: Store) -> None:
    assert "4 arms x 3 seeds" in repr(clipping_store)
    assert "<table>" in clipping_store._repr_html_() and "extreme/clip" in clipping_store._repr_html_()
    run = clipping_store.runs[0]
    assert "seed 42: finished" in repr(run)
    assert "final_loss" in run._repr_html_()
    assert "arm: extreme/no_clip" in repr(clipping_store.series("loss"))
    assert "no runs" in repr(Store([]))


def test_pandas_has_one_row_per_value(clipping_store: Store) -> None:
    table = clipping_store.to_pandas()
    # The arms differ in how they clip, and in nothing else when cut short.
    assert list(table.columns) == ["study", "arm", "seed", "id", "clip", "series", "step", "site", "value"]
    loss = table[(table.series == "loss") & (table.arm == "extreme/clip") & (table.seed == 42)]
    np.testing.assert_allclose(loss.value, clipping_store.series("loss").sel(arm="extreme/clip", seed=42).values)
    assert len(clipping_store.summary_to_pandas()) == len(clipping_store)


def test_the_json_export_has_the_promised_layout(clipping_store: Store, tmp_path: Path) -> None:
    content = json.loads(export(clipping_store, "json", tmp_path / "runs.json").read_text())
    assert content["schema"] == 1
    assert len(content["runs"]) == 12
    run = content["runs"][0]
    assert set(run) >= {"id", "study", "arm", "seed", "status", "config", "series", "summary"}
    assert run["series"]["loss"]["step"] == list(range(240)) and "sites" not in run["series"]["loss"]
    accuracy = run["series"]["accuracy"]
    assert accuracy["sites"] == ["class_0", "class_1", "class_2", "class_3"]
    assert accuracy["value"][0][2] is None, "an absent class is missing, not 0"


def test_export_says_what_is_wrong(clipping_store: Store, tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="cannot export to 'jsn'; did you mean 'json'"):
        export(clipping_store, "jsn", tmp_path / "x")
    with pytest.raises(KymographError, match="no directory"):
        export(clipping_store, "json", tmp_path / "absent" / "x.json")


def test_opening_nothing_says_how_to_make_something(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="no directory"):
        Store.open(tmp_path / "absent")
    with pytest.raises(KymographError, match="contains no completed run"):
        Store.open(tmp_path)


def test_runs_are_reached_by_position(clipping_store: Store) -> None:
    assert clipping_store[0] is clipping_store.runs[0] and clipping_store[-1] is clipping_store.runs[-1]
    assert clipping_store[:3].runs == clipping_store.runs[:3] and clipping_store[:3].root == clipping_store.root
    with pytest.raises(IndexError, match="there is no run 0 among 0"):
        clipping_store.failed[0]


def test_a_failed_run_shows_why_and_where(tmp_path: Path) -> None:
    write_failure(tmp_path, RunSpec("broken", "bad", 1, {"lr": 0.1}, 1), "it <broke>", {}, "Traceback: line <3>")
    (run,) = Store.open(tmp_path).failed
    assert Store.open(tmp_path).failed[0].id == run.id
    page = run._repr_html_()
    assert "it &lt;broke&gt;" in page and "<pre>Traceback: line &lt;3&gt;</pre>" in page and ">lr<" in page


def test_a_changed_traceback_is_noticed(tmp_path: Path) -> None:
    """`verify` used to check the files of finished runs only."""
    write_failure(tmp_path, RunSpec("broken", "bad", 1, {"lr": 0.1}, 1), "it broke", {}, "Traceback: line 3")
    (run,) = Store.open(tmp_path).failed
    run.check()
    path = next(tmp_path.glob("broken/*/traceback.txt"))
    path.write_text("Traceback: line 4")
    with pytest.raises(KymographError, match=r"traceback\.txt"):
        run.check()


def test_a_series_without_any_site_has_an_axis_without_labels(tmp_path: Path) -> None:
    """A probe that found no layer for a quantity once stored such a series, and no figure could be drawn."""
    spec = RunSpec("s", "a", 1, {}, 1)
    step = np.arange(3)
    result = RunResult({"none": RunSeries(step, np.empty((3, 0)), ()), "x": RunSeries(step, np.ones(3))}, {})
    write_record(tmp_path, spec, result, {}, 0.1)
    store = Store.open(tmp_path)
    assert store.series("none").shape == (1, 1, 3, 0) and store.series("x").shape == (1, 1, 3)
