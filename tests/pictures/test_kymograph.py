from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kymograph._pictures.kymograph import draw_kymographs, kymograph
from kymograph._pictures.scales import MAP, SIGNED_MAP
from kymograph._runs.declaration import OVER_DEPTH, Declaration, SeriesDisplay
from kymograph._runs.store import LabelledArray
from tests.pictures.report.pages import make_runs


def drawn_kymograph(tmp_path: Path, series: str, **options: str) -> Any:
    display = SeriesDisplay(series, series, "unit", forms=OVER_DEPTH, options=options)
    return draw_kymographs(make_runs(tmp_path), Declaration("own", series=(display,)))


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


def test_a_figures_bar_says_where_values_lie_beyond_it() -> None:
    values = np.concatenate([[[1e6, 1e7]], np.geomspace(1.0, 10.0, 12).reshape(6, 2)])[None, None]
    labels = {"arm": ("a",), "seed": (1,), "step": tuple(range(7)), "site": ("h_0", "h_1")}
    array = LabelledArray("x", values, ("arm", "seed", "step", "site"), labels)
    figure = kymograph(array, "title", "‖h_ℓ‖", labels={"a": "An arm"})
    bar = next(axes for axes in figure.axes if axes.get_label() == "<colorbar>")
    colours = bar._colorbar  # type: ignore[attr-defined]
    assert colours.extend == "max" and abs(colours.vmax - 10.0) < 1e-9
    assert figure.axes[0].get_title() == "An arm (n = 1)"


def test_many_sites_are_numbered_with_whole_numbers() -> None:
    """Eighteen layers used to be numbered 0.0, 2.5, 5.0."""
    values = np.geomspace(1.0, 10.0, 36).reshape(1, 1, 2, 18)
    sites = tuple(f"layer {number}" for number in range(18))
    labels = {"arm": ("a",), "seed": (1,), "step": (0, 1), "site": sites}
    figure = kymograph(LabelledArray("x", values, ("arm", "seed", "step", "site"), labels), "title", "norm")
    assert all(float(tick).is_integer() for tick in figure.axes[0].get_yticks())


def test_ticks_of_a_short_logarithmic_colour_bar_are_plain_numbers() -> None:
    """They used to be labelled 3 × 10¹, 4 × 10¹ and 6 × 10¹."""
    values = np.linspace(15.0, 70.0, 12).reshape(1, 2, 3, 2)
    labels = {"arm": ("a",), "seed": (1, 2), "step": (0, 1, 2), "site": ("x", "y")}
    array = LabelledArray("norm", values, ("arm", "seed", "step", "site"), labels)
    figure = kymograph(array, "Norms", "norm")
    figure.draw_without_rendering()
    axis = figure.axes[-1].yaxis
    texts = {label.get_text() for label in (*axis.get_ticklabels(), *axis.get_ticklabels(minor=True))} - {""}
    assert len(texts) >= 2 and all(text.isdigit() for text in texts)
    ticks = [label.get_text() for label in figure.axes[0].get_xticklabels()]
    assert "1" in ticks and not any("." in tick for tick in ticks), "no half steps"
