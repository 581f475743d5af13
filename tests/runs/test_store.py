"""Many runs as arrays and tables."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kymograph
from kymograph._errors import KymographError
from kymograph._runs.directory import select
from kymograph._runs.record import RunResult, RunSeries, write_failure
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import LabelledArray, Store
from tests.records import write_record
from tests.studies.walks import REFERENCE, STEPS


def test_series_have_axes_arm_seed_step_and_site(walk_store: Store) -> None:
    loss = walk_store.series("loss")
    assert loss.axes == ("arm", "seed", "step")
    assert loss.shape == (4, 3, 2 * STEPS)
    accuracy = walk_store.series("accuracy")
    assert accuracy.axes == ("arm", "seed", "step", "site")
    assert accuracy.labels["site"] == ("class_0", "class_1", "class_2", "class_3")
    run = next(run for run in walk_store if run.arm == "extreme/clip" and run.seed == 123)
    np.testing.assert_array_equal(loss.sel(arm="extreme/clip", seed=123).values, run.series["loss"].value)
    assert np.array_equal(np.asarray(loss), loss.values, equal_nan=True)


def test_runs_of_different_length_are_padded_with_missing(tmp_path: Path) -> None:
    kymograph.run(REFERENCE, seeds=[1], arms=["extreme/clip"], out=tmp_path, quiet=True, epochs=1)
    kymograph.run(REFERENCE, seeds=[1], arms=["moderate/clip"], out=tmp_path, quiet=True, epochs=2)
    loss = Store.open(tmp_path).series("loss")
    assert loss.shape == (2, 1, 2 * STEPS)
    assert np.isnan(loss.sel(arm="extreme/clip").values[0, STEPS:]).all()
    assert not np.isnan(loss.sel(arm="moderate/clip").values).any()


def test_two_settings_of_one_arm_are_never_mixed(tmp_path: Path) -> None:
    for lr in (0.1, 0.2):
        kymograph.run(REFERENCE, seeds=[1], arms=["extreme/clip"], out=tmp_path, quiet=True, lr=lr)
    store = Store.open(tmp_path)
    with pytest.raises(KymographError, match=r"several values of lr; choose one with store.where"):
        store.series("loss")
    assert store.where(lr=0.2).series("loss").shape[:2] == (1, 1)
    with pytest.raises(KymographError, match="did you mean 'lr'"):
        store.where(lrr=0.2)
    with pytest.raises(KymographError, match=r"no run has lr=0.3"):
        store.where(lr=0.3)


def test_versions_of_a_study_are_never_mixed(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    result = RunResult({"loss": RunSeries(np.arange(3), np.ones(3))}, {})
    for version, seed in ((0, 1), (0, 2), (1, 1)):
        write_record(tmp_path, RunSpec("walks", "extreme/clip", seed, {"lr": 0.1}, version), result, {}, 0.1)
    both = Store.open(tmp_path)
    with pytest.raises(KymographError, match=r"several values of version; choose one with store.where\(version="):
        both.series("loss")
    assert both.current().seeds == (1,) and both.where(version=0).seeds == (1, 2)
    assert select(tmp_path).seeds == (1,)
    assert "2 superseded runs, of older versions" in capsys.readouterr().err
    assert select(tmp_path, where={"version": 0}).seeds == (1, 2)
    assert not capsys.readouterr().err


def test_labels_that_are_not_there_are_named(walk_store: Store) -> None:
    with pytest.raises(KymographError, match="did you mean 'grad_norm'"):
        walk_store.series("grad_nrom")
    with pytest.raises(KymographError, match="no arm 'extreme/clp'"):
        walk_store.series("loss").sel(arm="extreme/clp")
    with pytest.raises(KymographError, match="no axis"):
        walk_store.series("loss").sel(arms="extreme/clip")
    with pytest.raises(KymographError, match="did you mean 'final_loss'"):
        walk_store.summary("final_los")


def test_summary_and_selection(walk_store: Store) -> None:
    final = walk_store.summary("final_loss")
    assert final.shape == (4, 3)
    part = walk_store.select(arms=["moderate/clip", "extreme/clip"], seeds=[456, 42])
    assert [(run.arm, run.seed) for run in part] == [
        ("moderate/clip", 456), ("extreme/clip", 456), ("moderate/clip", 42), ("extreme/clip", 42)
    ]  # fmt: skip


def test_stores_and_runs_show_well(walk_store: Store) -> None:
    assert "4 arms x 3 seeds" in repr(walk_store)
    assert "<table>" in walk_store._repr_html_() and "extreme/clip" in walk_store._repr_html_()
    run = walk_store.runs[0]
    assert "seed 42: finished" in repr(run)
    assert "final_loss" in run._repr_html_()
    assert "arm: extreme/no_clip" in repr(walk_store.series("loss"))
    assert "no runs" in repr(Store([]))


def test_pandas_has_one_row_per_value(walk_store: Store) -> None:
    table = walk_store.to_pandas()
    # The arms differ in how they clip, and in nothing else.
    assert list(table.columns) == ["study", "arm", "seed", "id", "clip", "series", "step", "site", "value"]
    loss = table[(table.series == "loss") & (table.arm == "extreme/clip") & (table.seed == 42)]
    np.testing.assert_allclose(loss.value, walk_store.series("loss").sel(arm="extreme/clip", seed=42).values)
    assert len(walk_store.summary_to_pandas()) == len(walk_store)


def test_opening_nothing_says_how_to_make_something(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="no directory"):
        Store.open(tmp_path / "absent")
    with pytest.raises(KymographError, match="contains no completed run"):
        Store.open(tmp_path)


def test_runs_are_reached_by_position(walk_store: Store) -> None:
    assert walk_store[0] is walk_store.runs[0] and walk_store[-1] is walk_store.runs[-1]
    assert walk_store[:3].runs == walk_store.runs[:3] and walk_store[:3].root == walk_store.root
    with pytest.raises(IndexError, match="there is no run 0 among 0"):
        walk_store.failed[0]


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


LABELS = {"arm": ("a", "b"), "seed": (1, 2, 3), "step": (0, 10)}
ARRAY = LabelledArray("loss", np.arange(12.0).reshape(2, 3, 2), tuple(LABELS), LABELS)


def test_a_table_has_a_column_per_axis_and_one_of_values() -> None:
    table = ARRAY.to_pandas()
    assert list(table.columns) == ["arm", "seed", "step", "loss"] and len(table) == 12
    for row in table.itertuples():
        assert row.loss == ARRAY.sel(arm=row.arm, seed=row.seed, step=row.step).values
    assert table.seed.dtype.kind == "i" and table.step.dtype.kind == "i"


def test_axes_that_were_fixed_are_gone() -> None:
    assert list(ARRAY.sel(arm="a").to_pandas().columns) == ["seed", "step", "loss"]
    single = ARRAY.sel(arm="b", seed=3, step=10).to_pandas()
    assert single.to_dict("list") == {"loss": [11.0]}
    named = LabelledArray("step", ARRAY.values, ARRAY.axes, LABELS).to_pandas()
    assert list(named.columns) == ["arm", "seed", "step", "value"]


def test_xarray_gets_dimensions_coordinates_and_name(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, dict]] = []
    fake = types.ModuleType("xarray")
    fake.DataArray = lambda values, **facts: calls.append((values, facts))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "xarray", fake)
    ARRAY.to_xarray()
    ((values, facts),) = calls
    assert values is ARRAY.values and facts["dims"] == ARRAY.axes and facts["name"] == "loss"
    assert facts["coords"] == {axis: list(labels) for axis, labels in LABELS.items()}


def test_xarray_itself_takes_it() -> None:
    pytest.importorskip("xarray")
    found = ARRAY.to_xarray()
    assert found.sel(arm="b", seed=3, step=10).item() == 11.0 and found.name == "loss"


@pytest.mark.parametrize(("package", "extra"), [("pandas", "frame"), ("xarray", "xarray")])
def test_a_missing_package_is_one_sentence_that_names_the_extra(
    package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(KymographError, match=rf"kymograph\[{extra}\]"):
        getattr(ARRAY, f"to_{package}")()
