"""No automatic figure hides what it draws: every point is inside its axes, in one order of arms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kymograph.pictures import curves
from kymograph.pictures import curves as profiles
from kymograph.pictures.figures import figure, figure_names
from kymograph.pictures.report.sections import section_of
from kymograph.pictures.styles import COLOURS
from kymograph.runs.declaration import OVER_DEPTH, Arm, Declaration, SeriesDisplay, write_declaration
from kymograph.runs.record import RunResult, RunSeries, write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store

SITES = ("fc.0", "fc.2", "fc.4")
ARMS = ("relu", "gelu", "elu")
"""Neither in the order of the alphabet nor in its reverse."""


def make_store(root: Path, growth: float = 40.0, zero: bool = False) -> Store:
    """Stores runs whose series change by a factor during training, at three layers with names."""
    for index, arm in enumerate(ARMS):
        for seed in range(4):
            draw = np.random.default_rng([index, seed])
            time = np.arange(0, 50, 10)
            share = growth ** (time / time[-1])
            norm = share[:, None] * (1 + index + 0.1 * draw.random((len(time), 3)))
            dead = 0.1 + 0.1 * draw.random((len(time), 3))
            if zero and seed == 0:
                dead[2, 1] = norm[2, 1] = 0.0
            series = {
                "loss": RunSeries(time, 1 / share + 0.01 * draw.random(len(time))),
                "weight_norm": RunSeries(time, norm, SITES),
                "dead_fraction": RunSeries(time, dead, SITES),
            }
            write_record(root, RunSpec("own", arm, seed, {}, 1), RunResult(series, {"loss": 1.0}), {}, 0.1)
    write_declaration(root / "own", Declaration("own", arms=tuple(map(Arm, ARMS)), version=1))
    return Store.open(root)


def points_outside(drawn: Any) -> list[str]:
    """Returns the lines of a figure of which a point is outside the axes they are drawn in."""
    drawn.draw_without_rendering()
    found = []
    for axes in drawn.axes:
        if not axes.get_visible():
            continue
        low, high = sorted(axes.get_ylim())
        left, right = sorted(axes.get_xlim())
        for line in axes.lines:
            if line.get_transform() != axes.transData:
                continue  # a line across the axes
            x, y = (np.asarray(values, dtype=float) for values in line.get_data())
            finite = np.isfinite(x) & np.isfinite(y)
            inside = (low <= y[finite]) & (y[finite] <= high) & (left <= x[finite]) & (x[finite] <= right)
            if not inside.all():
                found.append(f"{axes.get_title()}: {line.get_label()}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("growth", [0.2, 8.0, 1000.0])
@pytest.mark.parametrize("style", ["notebook", "paper"])
def test_every_point_of_every_automatic_figure_is_inside_its_axes(tmp_path: Path, growth: float, style: str) -> None:
    """Profiles used to have the limits of their first panel, so that a norm that grew was drawn nowhere."""
    store = make_store(tmp_path, growth)
    names = figure_names(store)
    assert {"own-curves", "own-profiles", "own-profiles-dead_fraction"} <= set(names)
    assert {name: points_outside(figure(name, store, style=style)) for name in names} == {name: [] for name in names}


def test_panels_with_different_legends_share_limits_that_hold_all_data(tmp_path: Path) -> None:
    """An arm without a last value has another legend there, for which the axis is made taller once."""
    store = make_store(tmp_path)
    spec = RunSpec("own", "later", 0, {}, 1)
    series = {"weight_norm": RunSeries(np.arange(5), np.ones((5, 1)), ("fc.0",))}
    write_record(tmp_path, spec, RunResult(series, {}), {}, 1)
    drawn = figure("own-profiles", Store.open(store.root or tmp_path), style="paper")
    assert points_outside(drawn) == []
    low, high = drawn.axes[0].get_ylim()
    assert all(axes.get_ylim() == (low, high) for axes in drawn.axes)


def test_a_profiles_table_names_the_layers(tmp_path: Path) -> None:
    """It used to have positions only, where the axis had names."""
    drawn = figure("own-profiles", make_store(tmp_path))
    assert drawn.columns == ("panel", "curve", "seed", "x", "site", "value")
    assert {(row[3], row[4]) for row in drawn.rows} == set(enumerate(SITES))


def test_figures_report_and_store_have_one_order_of_arms_and_so_one_colour_each(tmp_path: Path) -> None:
    """Figures used to take the alphabetical order, the report that of the study."""
    store = make_store(tmp_path)
    assert store.arms == ARMS
    declaration = store.declarations["own"]
    for drawn in (curves.draw_curves(store, declaration), profiles.draw_profiles(store, declaration)):
        named = {line.get_label().split(" (")[0]: line for line in drawn.axes[0].lines if "(n" in line.get_label()}
        assert list(named) == list(ARMS)
        assert [line.get_color() for line in named.values()] == list(COLOURS[:3])
        assert [line.get_linestyle() for line in named.values()] == ["-", "-", "--"], "as the report's lines"
    (setting,) = section_of(store, declaration).settings
    assert [row.name for row in setting.arms] == list(ARMS)
    assert [row.style.hex for row in setting.arms] == list(COLOURS[:3])
    assert [row.style.dashes for row in setting.arms] == [(), (), (7, 3)]


@pytest.mark.parametrize("log", [None, True])
def test_a_seed_with_a_zero_counts_in_the_mean_over_all_seeds(tmp_path: Path, log: bool | None) -> None:
    """Means of a log scale used to be of the seeds above 0, under the number of all of them."""
    store = make_store(tmp_path, zero=True)
    series = store.series("dead_fraction").values  # (arm, seed, step, site)
    display = SeriesDisplay("dead_fraction", "dead", "share", log=log, forms=OVER_DEPTH)
    declaration = Declaration("own", series=(display,), arms=tuple(map(Arm, ARMS)))
    from kymograph.pictures import kymograph

    drawn = kymograph.draw_kymographs(store, declaration)
    assert drawn.columns[-1] == "mean" and any("(mean over seeds)" in axes.get_ylabel() for axes in drawn.axes)
    (cell,) = [row[3] for row in drawn.rows if row[:3] == ("relu", 20, "fc.2")]
    assert cell == pytest.approx(series[0, :, 2, 1].mean())
    drawn = profiles.draw_profiles(store, declaration)
    (cell,) = [row[5] for row in drawn.rows if row[:5] == ("in the middle", "relu", "mean", 1, "fc.2")]
    assert cell == pytest.approx(series[0, :, 2, 1].mean())
    (setting,) = section_of(store, declaration).settings
    chart = next(chart for chart in setting.charts if chart.data["kind"] == "kymograph")
    assert chart.data["panels"][0]["values"][1][2] == pytest.approx(series[0, :, 2, 1].mean(), rel=1e-4)
    assert "Colour: mean over 4 seeds" in chart.caption


def test_fractions_are_never_on_a_log_scale(tmp_path: Path) -> None:
    drawn = figure("own-kymograph-dead_fraction", make_store(tmp_path))
    assert drawn.columns[-1] == "mean"
    assert figure("own-kymograph", make_store(tmp_path)).columns[-1] == "geometric_mean"


def test_panels_have_letters_one_legend_and_a_name_for_their_bands(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    declaration = store.declarations["own"]
    for drawn in (curves.draw_curves(store, declaration), profiles.draw_profiles(store, declaration)):
        panels = [axes for axes in drawn.axes if axes.get_visible()]
        letters = [text.get_text() for axes in panels for text in axes.texts]
        assert letters == [chr(ord("a") + index) for index in range(len(panels))] or len(panels) == 1
        assert len(drawn.legends) == 1 and not any(axes.get_legend() for axes in panels)
        names = [text.get_text() for text in drawn.legends[0].get_texts()]
        assert [name.split(" (")[0] for name in names[:3]] == list(ARMS), "in the study's order"
        assert sum("95 % interval" in name for name in names) == 1 and len(names) == 4
