"""The figures that any study has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

from kymograph.errors import KymographError
from kymograph.pictures import FIGURES, curves, figures, kymograph
from kymograph.pictures.saving import save_figure
from kymograph.pictures.scales import MAP, SIGNED_MAP, is_log, is_log_colour
from kymograph.runs.declaration import OVER_DEPTH, Declaration, SeriesDisplay
from kymograph.runs.record import RunResult, RunSeries, write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from kymograph.studies.study import StudyFigure
from tests.pictures.report.pages import PROVENANCE, make_runs


def study(name: str, **drawings: Any) -> Any:
    """Returns a user's study that has figures and nothing else."""
    return SimpleNamespace(name=name, figures=lambda: drawings, declaration=lambda: Declaration(name))


def test_an_undeclared_scale_is_chosen_from_the_values_and_a_declared_one_is_kept() -> None:
    wide, narrow, signed = np.array([1.0, 51.0, np.nan]), np.array([1.0, 49.0]), np.array([-1.0, 60.0])
    undeclared = SeriesDisplay("x", "x", "x")
    assert [is_log(undeclared, values) for values in (wide, narrow, signed)] == [True, False, False]
    assert [is_log_colour(undeclared, values) for values in (wide, narrow, signed)] == [True, True, False]
    for log in (True, False):
        declared = SeriesDisplay("x", "x", "x", log=log)
        assert is_log(declared, narrow) is is_log_colour(declared, narrow) is log


def test_curves_over_decades_have_a_log_axis_without_being_declared(tmp_path: Path) -> None:
    """The figure used to take an undeclared scale for a linear one, where the report chose."""
    display = SeriesDisplay("stream", "The stream", "norm", site="h_0")
    for steps, scale in ((12, "linear"), (100, "log")):
        store = make_runs(tmp_path / scale, steps=steps)
        assert curves.draw_curves(store, Declaration("own", series=(display,))).axes[0].get_yscale() == scale


def drawn_kymograph(tmp_path: Path, series: str, **facts: str) -> Any:
    display = SeriesDisplay(series, series, "unit", forms=OVER_DEPTH, options=facts)
    return kymograph.draw_kymographs(make_runs(tmp_path), Declaration("own", series=(display,)))


def test_a_signed_series_has_a_diverging_scale_around_zero(tmp_path: Path) -> None:
    """It used to be drawn on a log scale, its negative half in grey."""
    figure = drawn_kymograph(tmp_path, "cosine")
    mesh = figure.axes[0].collections[0]
    assert mesh.get_cmap().name == SIGNED_MAP and mesh.norm.vmin == -mesh.norm.vmax < 0
    assert not np.ma.getmaskarray(mesh.get_array()).any(), "no cell is grey"
    assert figure.columns[-1] == "mean" and any("\n(mean over seeds)" in axes.get_ylabel() for axes in figure.axes)


def test_a_positive_series_has_a_log_scale_and_sites_are_called_what_the_study_calls_them(tmp_path: Path) -> None:
    figure = drawn_kymograph(tmp_path / "a", "stream")
    mesh = figure.axes[0].collections[0]
    assert mesh.get_cmap().name == MAP and mesh.norm.vmin > 0 and figure.columns[-1] == "geometric_mean"
    assert figure.axes[0].get_ylabel() == "site"
    assert drawn_kymograph(tmp_path / "b", "stream", sites="layer").axes[0].get_ylabel() == "layer"


def test_a_users_figure_keeps_the_file_name_that_its_study_declares() -> None:
    mine = study("own", mine=StudyFigure(lambda store: None, "mine", file_name="figure_1"), other=lambda store: None)
    assert figures.file_name("mine", [mine]) == "figure_1" and figures.file_name("other", [mine]) == "other"
    assert figures.file_name("mine") == "mine", "unless its code was not named"


def test_two_figures_are_not_written_to_one_file() -> None:
    mine = study(
        "own",
        a=StudyFigure(lambda store: None, "", file_name="same"),
        b=StudyFigure(lambda store: None, "", file_name="same"),
    )
    with pytest.raises(KymographError, match="'a' and 'b' would both be written to 'same'"):
        figures.file_names(["a", "b"], [mine])


def test_two_studies_with_one_figure_name_are_both_named(tmp_path: Path) -> None:
    """One of them used to be drawn in the other's stead."""
    make_runs(tmp_path, study="one")
    store = make_runs(tmp_path, study="two")
    both = [study(name, loss=lambda store: store.studies) for name in ("one", "two")]
    with pytest.raises(KymographError, match="one and two each have a figure 'loss'; select the runs of one study"):
        figures.figure("loss", store, studies=both)
    assert figures.figure("loss", store.select("two"), studies=both) == ("two",)
    assert figures.figure_names(store, both) == ["loss"]


@pytest.mark.parametrize("kind", ["curves", "kymograph", "profiles"])
def test_names_with_dollar_signs_are_drawn(tmp_path: Path, kind: str) -> None:
    """Matplotlib raised an error for them after everything was computed."""
    bad = r"$\frac{$"
    store = make_runs(tmp_path, arms=(bad, "5 $ a_1"), seeds=(1, 2), steps=4, sites=2)
    display = SeriesDisplay(
        "stream", bad, bad, site="h_0", forms=("curves", *OVER_DEPTH), options={"sites": bad, "quantity": bad}
    )
    declaration = Declaration("own", question=bad, time=bad, series=(display,))
    for style in ("notebook", "paper"):
        figure = FIGURES.load(kind)(store, declaration, style=style)
        save_figure(figure, tmp_path / "figures", "x", ["svg"])
    words = [text.get_text() for text in figure.findobj(Text)]
    assert any(r"\$\frac{\$" in one for one in words), "escaped for matplotlib"
    assert any(bad in row for row in figure.rows), "not in the data"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ["curves", "kymograph", "profiles"])
@pytest.mark.parametrize("log", [None, True])
def test_the_largest_numbers_are_left_out_and_the_rest_is_drawn(tmp_path: Path, kind: str, log: bool | None) -> None:
    largest = np.finfo(np.float64).max
    for seed in range(3):
        time = np.arange(6)
        column = np.where(time % 2, largest * (-1) ** (seed + time // 2), 1.0 + seed)
        values = np.stack([column, np.full(6, largest)], axis=1)
        series = {"stream": RunSeries(time, values, ("h_0", "h_1"))}
        write_record(tmp_path, RunSpec("own", "a", seed, {}, 1), RunResult(series, {}), PROVENANCE, 0.1)
    display = SeriesDisplay("stream", "The stream", "norm", log, site="h_0", forms=("curves", *OVER_DEPTH))
    figure = FIGURES.load(kind)(Store.open(tmp_path), Declaration("own", series=(display,)))
    save_figure(figure, tmp_path / "figures", "x", ["svg"])
    drawn = [row[-1] for row in figure.rows if np.isfinite(row[-1])]
    assert {1.0, 3.0} <= {round(value) for value in drawn} or kind == "kymograph"
    assert drawn and max(map(abs, drawn)) < 20
