from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text

from kymograph._errors import KymographError
from kymograph._pictures import FIGURES, curves, figures
from kymograph._pictures.figures import figure, figure_names
from kymograph._pictures.report_page.sections import section_of
from kymograph._pictures.saving import save_figure
from kymograph._pictures.styles import COLOURS
from kymograph._runs.declaration import OVER_DEPTH, Declaration, SeriesDisplay
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._studies.study import StudyFigure, about
from tests.cli.command import call
from tests.pictures.drawn import ARMS, make_store, points_outside
from tests.pictures.report.pages import PROVENANCE, make_runs
from tests.records import write_record


def study(name: str, **drawings: Any) -> Any:
    """Returns a user's study that has figures and nothing else."""
    return SimpleNamespace(name=name, figures=lambda: drawings, declaration=lambda: Declaration(name))


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
    value = figure.columns.index("value") if kind != "kymograph" else 3  # the mean
    drawn = [row[value] for row in figure.rows if np.isfinite(row[value])]
    assert {1.0, 3.0} <= {round(value) for value in drawn} or kind == "kymograph"
    assert drawn and max(map(abs, drawn)) < 20


@pytest.mark.slow
@pytest.mark.parametrize("growth", [0.2, 8.0, 1000.0])
@pytest.mark.parametrize("style", ["notebook", "paper"])
def test_every_point_of_every_automatic_figure_is_inside_its_axes(tmp_path: Path, growth: float, style: str) -> None:
    """Profiles used to have the limits of their first panel, so that a norm that grew was drawn nowhere."""
    store = make_store(tmp_path, growth)
    names = figure_names(store)
    assert {"own-curves", "own-profiles", "own-profiles-dead_fraction"} <= set(names)
    assert {name: points_outside(figure(name, store, style=style)) for name in names} == {name: [] for name in names}


def test_figures_report_and_store_have_one_order_of_arms_and_so_one_colour_each(tmp_path: Path) -> None:
    """Figures used to take the alphabetical order, the report that of the study."""
    store = make_store(tmp_path)
    assert store.arms == ARMS
    declaration = store.declarations["own"]
    for drawn in (curves.draw_curves(store, declaration), curves.draw_profiles(store, declaration)):
        named = {line.get_label().split(" (")[0]: line for line in drawn.axes[0].lines if "(n" in line.get_label()}
        assert list(named) == list(ARMS)
        assert [line.get_color() for line in named.values()] == list(COLOURS[:3])
        assert [line.get_linestyle() for line in named.values()] == ["-", "-", "--"], "as the report's lines"
    (setting,) = section_of(store, declaration).settings
    assert [row.name for row in setting.arms] == list(ARMS)
    assert [row.style.hex for row in setting.arms] == list(COLOURS[:3])
    assert [row.style.dashes for row in setting.arms] == [(), (), (7, 3)]


def test_a_plain_function_is_told_by_its_docstring() -> None:
    def mine(store: Store) -> None:
        """Draws my own.

        At length.
        """

    assert about(mine) == "Draws my own."


def test_layers_are_chosen_only_in_figures_that_show_them_one_by_one(tmp_path: Path) -> None:
    store = make_store(tmp_path)
    assert len(figure("own-kymograph", store, family="fc.[02]").axes[0].get_yticks()) == 2
    with pytest.raises(KymographError, match="own-curves does not show layers one by one; drop --family"):
        figure("own-curves", store, family="fc.*")
    with pytest.raises(KymographError, match="own-curves does not show layers one by one; drop --all-sites"):
        figure("own-curves", store, all_sites=True)
    with pytest.raises(KymographError, match="--family draws some layers and --all-sites all of them; drop one"):
        figure("own-kymograph", store, family="fc.*", all_sites=True)
    with pytest.raises(KymographError, match=r"no family or site matches 'fd\.0'; did you mean 'fc\.0'"):
        figure("own-profiles", store, family="fd.0")


def test_the_command_takes_a_family_and_all_sites(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_store(tmp_path / "runs")
    words = ["figure", "own-kymograph", "--dir", str(tmp_path / "runs"), "-o", str(tmp_path)]
    assert call(*words, "--family", "fc.0") == 0
    lines = (tmp_path / "own-kymograph.csv").read_text().splitlines()
    assert {line.split(",")[2] for line in lines[1:]} == {"fc.0"}
    assert call(*words, "--all-sites") == 0 and call(*words, "--family", "nothing") == 1
    assert "no family or site matches 'nothing'" in capsys.readouterr().err
