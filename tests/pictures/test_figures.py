from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import kymograph
from kymograph.errors import KymographError
from kymograph.pictures.series import binned
from kymograph.pictures.figures import figure_names
from kymograph.pictures.kymograph import kymograph as draw_kymograph
from kymograph.pictures.saving import save_figure, save_stale
from kymograph.runs.store import LabelledArray, Store
from kymograph.studies.loading import load_study


def test_bins_keep_peaks_if_asked() -> None:
    values = np.zeros((1, 1000))
    values[0, 777] = 9.0
    x, peaks = binned(np.arange(1000), values, "max", bins=100)
    assert len(x) == 100 and peaks.max() == 9
    assert binned(np.arange(1000), values, "mean", bins=100)[1].max() == pytest.approx(0.9)


@pytest.mark.parametrize("seeds", [[42], pytest.param([42, 123, 456], marks=pytest.mark.slow)])
@pytest.mark.parametrize("fixture", ["clipping_store", "depth_store"])
def test_every_figure_is_drawn_with_labels_n_and_data(
    request: pytest.FixtureRequest, tmp_path: Path, fixture: str, seeds: list[int]
) -> None:
    store: Store = request.getfixturevalue(fixture).select(seeds=seeds)
    names = [name for name in figure_names(store) if not name.endswith("-sweep")]
    assert len(names) >= 2
    for name in names:
        figure = kymograph.figure(name, store)
        texts = [t.get_text() for axes in figure.axes for t in (*axes.get_legend_handles_labels()[1:], axes.title)
                 if hasattr(t, "get_text")]  # fmt: skip
        labels = [label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
        assert any(f"n = {len(seeds)}" in text for text in [*texts, *labels]), name
        paths = save_figure(figure, tmp_path, name, ("png",))  # the other formats have tests of their own
        assert [path.suffix for path in paths] == [".png", ".csv"]
        assert all(path.stat().st_size > 500 for path in paths)
        with (tmp_path / f"{name}.csv").open() as file:
            least = 0 if name.endswith("-differences") else 10  # a row per claim and seed
            assert len(list(csv.DictReader(file))) > least


@pytest.mark.parametrize(
    ("study", "arms", "fields"),
    [
        ("clipping", ["extreme/*", "moderate/*", "imbalance/*"], {"n_samples": 80, "probe_every": 20}),
        ("depth", ["layers/5/*", "layers/10/*", "width/16/*"], {"steps": 4, "n_samples": 32, "batch_size": 8}),
    ],
)
def test_the_sweeps_are_drawn_if_they_were_run(
    tmp_path: Path, request: pytest.FixtureRequest, study: str, arms: list[str], fields: dict
) -> None:
    with pytest.raises(KymographError, match="needs the sweeps"):
        kymograph.figure(f"{study}-sweep", request.getfixturevalue(f"{study}_store"))
    if study == "clipping":
        fields = {**fields, "epochs": 1}
        arms = [arm for arm in arms if not arm.startswith("imbalance")]
        kymograph.run(study, seeds=[1, 2], arms=["imbalance/1/*"], out=tmp_path, quiet=True, engine="serial", epochs=1)
        fields["n_rare"] = 5
    kymograph.run(study, seeds=[1, 2], arms=arms, out=tmp_path, quiet=True, engine="serial", **fields)
    figure = kymograph.figure(f"{study}-sweep", Store.open(tmp_path))
    assert len(figure.rows) > 20 and len(figure.legends) == 1, "one legend for all panels"  # type: ignore[attr-defined]


def test_a_figures_data_are_the_stores_numbers(depth_store: Store, tmp_path: Path) -> None:
    save_figure(kymograph.figure("depth-loss", depth_store), tmp_path, "loss")
    with (tmp_path / "loss.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["curve"] == "plain" and row["seed"] == "123"]
    expected = depth_store.series("loss").sel(arm="plain", seed=123).values
    np.testing.assert_allclose([float(row["value"]) for row in rows], expected, rtol=1e-6)


@pytest.mark.slow
def test_figures_have_the_same_bytes_every_time(depth_store: Store, tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_figure(kymograph.figure("depth-kymograph", depth_store), tmp_path / name, "k")
    for suffix in ("png", "pdf", "svg", "csv"):
        assert (tmp_path / "a" / f"k.{suffix}").read_bytes() == (tmp_path / "b" / f"k.{suffix}").read_bytes()


def test_a_kymograph_has_one_colour_scale_and_depth_runs_down(depth_store: Store) -> None:
    figure = kymograph.figure("depth-kymograph", depth_store)
    meshes = [m for axes in figure.axes for m in axes.collections if hasattr(m, "norm") and m.norm.vmin]
    assert len({(mesh.norm.vmin, mesh.norm.vmax) for mesh in meshes if mesh.get_array() is not None}) == 1
    panel = figure.axes[0]
    assert panel.get_ylim()[0] > panel.get_ylim()[1]


def test_figures_are_not_drawn_again_unless_runs_or_code_change(depth_store: Store, tmp_path: Path) -> None:
    draws = {"depth-loss": load_study("depth").figures()["depth-loss"]}
    assert save_stale(depth_store, draws, tmp_path, "code")[1] == 0
    assert save_stale(depth_store, draws, tmp_path, "code") == ([], 1)
    assert save_stale(depth_store, draws, tmp_path, "other code")[1] == 0
    assert save_stale(depth_store.select(seeds=[42]), draws, tmp_path, "other code")[1] == 0


def test_a_figure_whose_drawing_was_killed_is_not_taken_for_the_one_before(
    depth_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PNG of other runs next to a PDF of these, with a stamp that says that both are of these."""
    draws = {"depth-loss": load_study("depth").figures()["depth-loss"]}
    save_stale(depth_store, draws, tmp_path, "code", ("png", "pdf"))
    before = (tmp_path / "depth-loss.png").read_bytes()

    def killed(*_: object) -> None:
        (tmp_path / "depth-loss.png").write_bytes(b"that of other runs")
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("kymograph.pictures.saving.save_figure", killed)
        with pytest.raises(SystemExit):
            save_stale(depth_store.select(seeds=[42]), draws, tmp_path, "code", ("png", "pdf"))
    assert save_stale(depth_store, draws, tmp_path, "code", ("png", "pdf"))[1] == 0
    assert (tmp_path / "depth-loss.png").read_bytes() == before


def test_figures_show_themselves_in_notebooks_and_leave_settings_alone(depth_store: Store) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    assert kymograph.figure("depth-loss", depth_store)._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert dict(matplotlib.rcParams) == before


def test_a_figure_that_cannot_be_drawn_says_what_is_missing(clipping_store: Store) -> None:
    with pytest.raises(KymographError, match="no figure 'clipping-spike'; did you mean 'clipping-spikes'"):
        kymograph.figure("clipping-spike", clipping_store)
    with pytest.raises(KymographError, match="needs an arm"):
        kymograph.figure("clipping", clipping_store.select(arms=["extreme/clip"]))


def test_ticks_of_a_short_logarithmic_colour_bar_are_plain_numbers() -> None:
    """They used to be labelled 3 × 10¹, 4 × 10¹ and 6 × 10¹."""
    values = np.linspace(15.0, 70.0, 12).reshape(1, 2, 3, 2)
    labels = {"arm": ("a",), "seed": (1, 2), "step": (0, 1, 2), "site": ("x", "y")}
    array = LabelledArray("norm", values, ("arm", "seed", "step", "site"), labels)
    figure = draw_kymograph(array, "Norms", "norm")
    figure.draw_without_rendering()
    axis = figure.axes[-1].yaxis
    texts = {label.get_text() for label in (*axis.get_ticklabels(), *axis.get_ticklabels(minor=True))} - {""}
    assert len(texts) >= 2 and all(text.isdigit() for text in texts)
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "1" in ticks and not any("." in tick for tick in ticks), "no half steps"
