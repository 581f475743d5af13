from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kymograph._errors import KymographError
from kymograph._pictures import curves, kymograph
from kymograph._pictures.canvas import LabFigure
from kymograph._pictures.curves import name_band, seed_curves
from kymograph._pictures.figures import figure, figure_names
from kymograph._pictures.report_page.sections import section_of
from kymograph._pictures.scales import SD
from kymograph._pictures.series import binned
from kymograph._runs.declaration import OVER_DEPTH, Arm, Declaration, SeriesDisplay
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.pictures.drawn import ARMS, SITES, make_store, points_outside
from tests.pictures.report.pages import make_runs
from tests.records import write_record


def test_bins_keep_peaks_if_asked() -> None:
    values = np.zeros((1, 1000))
    values[0, 777] = 9.0
    x, peaks = binned(np.arange(1000), values, "max", bins=100)
    assert len(x) == 100 and peaks.max() == 9
    assert binned(np.arange(1000), values, "mean", bins=100)[1].max() == pytest.approx(0.9)


def test_curves_over_decades_have_a_log_axis_without_being_declared(tmp_path: Path) -> None:
    """The figure used to take an undeclared scale for a linear one, where the report chose."""
    display = SeriesDisplay("stream", "The stream", "norm", site="h_0")
    for steps, scale in ((12, "linear"), (100, "log")):
        store = make_runs(tmp_path / scale, steps=steps)
        assert curves.draw_curves(store, Declaration("own", series=(display,))).axes[0].get_yscale() == scale


SEEDS = (42, 123, 456)


def named_bands(drawn: LabFigure) -> list[list[str]]:
    """Returns, by panel, what its legend says apart from its curves."""
    return [[name for name in axes.get_legend_handles_labels()[1] if "n = " not in name] for axes in drawn.axes]


def test_a_panel_without_a_band_gets_no_name_for_it() -> None:
    drawn = LabFigure()
    one, two = drawn.subplots(1, 2)
    for axes, seeds in ((one, SEEDS[:1]), (two, SEEDS)):
        values = np.ones((len(seeds), 2))
        seed_curves(drawn, axes, "panel", "curve", np.arange(2), values, seeds, "black")
        name_band(axes, SD, log=False)
    assert named_bands(drawn) == [[], [SD.label(False)]]


def test_profiles_are_means_over_seeds_at_start_middle_and_end(tmp_path: Path) -> None:
    store = make_runs(tmp_path, steps=11)
    figure = curves.draw_profiles(store, Declaration("own"), "stream")
    assert [axes.get_title() for axes in figure.axes] == ["At the start", "In the middle", "At the end"]
    rows = {(panel, curve, seed, x): value for panel, curve, seed, x, _, value in figure.rows}
    stream = store.series("stream").sel(arm="wild").values  # (seed, step, site)
    for panel, step in (("at the start", 0), ("in the middle", 5), ("at the end", 10)):
        log = figure.axes[0].get_yscale() == "log"
        mean = math.exp(np.log(stream[:, step, 2]).mean()) if log else stream[:, step, 2].mean()
        assert rows[panel, "wild", "mean", 2] == pytest.approx(mean)
    names = figure_names(store)
    assert {"own-profiles", "own-profiles-stream", "own-kymograph", "own-kymograph-stream"} <= set(names)


def test_a_series_without_depth_has_no_profile(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="own has no series with several sites"):
        curves.draw_profiles(make_runs(tmp_path), Declaration("own"), "loss")


def test_panels_with_different_legends_share_limits_that_hold_all_data(tmp_path: Path) -> None:
    """An arm without a last value has another legend there, for which the axis is made taller once."""
    store = make_store(tmp_path)
    spec = RunSpec("own", "later", 0, {}, 1)
    series = {"weight_norm": RunSeries(np.arange(5), np.ones((5, 2)), ("fc.0", "fc.2"))}
    write_record(tmp_path, spec, RunResult(series, {}), {}, 1)
    drawn = figure("own-profiles", Store.open(store.root or tmp_path), style="paper")
    assert points_outside(drawn) == []
    low, high = drawn.axes[0].get_ylim()
    assert all(axes.get_ylim() == (low, high) for axes in drawn.axes)


def make_network(root: Path, zero: bool = False, arms: Mapping[str, Sequence[str]] | None = None) -> Store:
    """Stores runs of a network of six blocks with three parts each, whose attention spans decades."""
    parts = ("", ".attn", ".mlp.act")
    sites = ("embed", *(f"h.{block}{part}" for block in range(6) for part in parts), "head")
    for arm, have in (arms or {"relu": sites, "gelu": sites}).items():
        for seed in range(2):
            sizes = np.array([1.5**index if "attn" in site else 2.0 + index for index, site in enumerate(have)])
            values = np.tile(sizes, (4, 1)) * (1 + 0.1 * seed)
            if zero:
                values[:, 5] = 0.0
            series = {"output_norm": RunSeries(np.arange(4), values, tuple(have))}
            write_record(root, RunSpec("own", arm, seed, {}, 1), RunResult(series, {}), {}, 0.1)
    return Store.open(root)


def names_down(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def test_profiles_of_a_network_have_a_row_per_family_with_depth_down(tmp_path: Path) -> None:
    """Twenty sites and more used to be one axis of 45 pixels."""
    drawn = figure("own-profiles", make_network(tmp_path))
    rows = [drawn.axes[index : index + 3] for index in range(0, len(drawn.axes), 3)]
    assert len(rows) == 4 and [axes.get_title() for axes in rows[0]] == ["At the start", "In the middle", "At the end"]
    assert all(row[0].get_xlim() == row[1].get_xlim() == row[2].get_xlim() for row in rows)
    assert len({row[0].get_xlim() for row in rows}) == 4, "every family has its own axis"
    assert names_down(rows[0][0]) == list("012345") and names_down(rows[-1][0]) == ["embed", "head"]
    assert all(axes.get_ylim() == (5.5, -0.5) for row in rows[:3] for axes in row)
    legend = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert legend[:2] == ["gelu (n = 2)", "relu (n = 2)"] and "interval" in legend[2] and len(legend) == 3
    assert drawn.columns == ("panel", "curve", "seed", "x", "site", "value")
    values = {row[4]: row[5] for row in drawn.rows if row[:3] == ("at the end", "relu", 0)}
    assert values["h.1.attn"] == pytest.approx(1.5**5) and len(values) == 20


def test_profiles_draw_one_family_or_all_sites(tmp_path: Path) -> None:
    store = make_network(tmp_path)
    drawn = figure("own-profiles", store, family="h.*.attn")
    assert len(drawn.axes) == 3 and [label.get_text() for label in drawn.axes[0].get_xticklabels()] == list("012345")
    drawn = figure("own-profiles", store, all_sites=True)
    assert len(drawn.axes) == 3 and len(names_down(drawn.axes[0])) == 20 and drawn.axes[0].get_xscale() == "log"
    assert drawn.get_figheight() / 20 > 0.15, "every name is legible"
    with pytest.raises(KymographError, match="no family or site matches 'attention'"):
        figure("own-profiles", store, family="attention")


@pytest.mark.parametrize("options", [{}, {"all_sites": True}, {"family": "h.*.attn"}], ids=str)
def test_zeros_are_marked_at_the_edge_of_a_log_axis(tmp_path: Path, options: dict[str, Any]) -> None:
    """One zero used to make the axis linear; on a log axis it was not drawn."""
    drawn = figure("own-profiles", make_network(tmp_path, zero=True), **options)
    marks = [(axes, line) for axes in drawn.axes for line in axes.lines if line.get_marker() in ("<", "v")]
    marks = [(axes, line) for axes, line in marks if len(line.get_xdata())]
    assert len(marks) == 6, "two arms at three moments"
    for axes, line in marks:
        across = "family" in options
        assert (axes.get_yscale() if across else axes.get_xscale()) == "log"
        assert np.asarray(line.get_ydata() if across else line.get_xdata()).tolist() == [0.0], "in axes coordinates"
        assert line.get_transform() == (axes.get_xaxis_transform() if across else axes.get_yaxis_transform())
    assert [text.get_text() for legend in drawn.legends for text in legend.get_texts()][-1] == "exactly 0, at the edge"


def test_arms_of_different_networks_have_profiles_of_their_own(tmp_path: Path) -> None:
    store = make_network(tmp_path, arms={"a": tuple(f"fc{index}" for index in range(6)), "b": ("in", "out")})
    drawn = figure("own-profiles", store)
    assert len(drawn.axes) == 6 and names_down(drawn.axes[3]) == ["in", "out"]
    assert len(drawn.axes[0].lines) == 1 and len(drawn.axes[3].lines) == 1


def test_a_profiles_table_names_the_layers(tmp_path: Path) -> None:
    """It used to have positions only, where the axis had names."""
    drawn = figure("own-profiles", make_store(tmp_path))
    assert drawn.columns == ("panel", "curve", "seed", "x", "site", "value")
    assert {(row[3], row[4]) for row in drawn.rows} == set(enumerate(SITES))


@pytest.mark.parametrize("log", [None, True])
def test_a_seed_with_a_zero_counts_in_the_mean_over_all_seeds(tmp_path: Path, log: bool | None) -> None:
    """Means of a log scale used to be of the seeds above 0, under the number of all of them."""
    store = make_store(tmp_path, zero=True)
    series = store.series("dead_fraction").values  # (arm, seed, step, site)
    display = SeriesDisplay("dead_fraction", "dead", "share", log=log, forms=OVER_DEPTH)
    declaration = Declaration("own", series=(display,), arms=tuple(map(Arm, ARMS)))

    drawn = kymograph.draw_kymographs(store, declaration)
    assert drawn.columns[3] == "mean" and any("(mean over seeds)" in axes.get_ylabel() for axes in drawn.axes)
    (cell,) = [row[3] for row in drawn.rows if row[:3] == ("relu", 20, "fc.2")]
    assert cell == pytest.approx(series[0, :, 2, 1].mean())
    drawn = curves.draw_profiles(store, declaration)
    (cell,) = [row[5] for row in drawn.rows if row[:5] == ("in the middle", "relu", "mean", 1, "fc.2")]
    assert cell == pytest.approx(series[0, :, 2, 1].mean())
    (setting,) = section_of(store, declaration).settings
    chart = next(chart for chart in setting.charts if chart.data["kind"] == "kymograph")
    assert chart.data["panels"][0]["values"][1][2] == pytest.approx(series[0, :, 2, 1].mean(), rel=1e-4)
    assert "Colour: mean over 4 seeds" in chart.caption


def test_fractions_are_never_on_a_log_scale(tmp_path: Path) -> None:
    drawn = figure("own-kymograph-dead_fraction", make_store(tmp_path))
    assert drawn.columns[3] == "mean"
    assert figure("own-kymograph", make_store(tmp_path)).columns[3] == "geometric_mean"


def test_panels_have_letters_one_legend_and_a_name_for_their_bands(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    declaration = store.declarations["own"]
    for drawn in (curves.draw_curves(store, declaration), curves.draw_profiles(store, declaration)):
        panels = [axes for axes in drawn.axes if axes.get_visible()]
        letters = [text.get_text() for axes in panels for text in axes.texts]
        assert letters == [chr(ord("a") + index) for index in range(len(panels))] or len(panels) == 1
        assert len(drawn.legends) == 1 and not any(axes.get_legend() for axes in panels)
        names = [text.get_text() for text in drawn.legends[0].get_texts()]
        assert [name.split(" (")[0] for name in names[:3]] == list(ARMS), "in the study's order"
        assert sum("95 % interval" in name for name in names) == 1 and len(names) == 4
