"""The kinds of panel: what each draws from a series, and that a new kind is one file."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from kymograph import registry
from kymograph.claims.verdict import Verdicts
from kymograph.pictures.report.charts import Chart, ChartRequest
from kymograph.pictures.report.page import build_page
from kymograph.pictures.report.sections import PANELS
from kymograph.runs.declaration import Declaration, SeriesDisplay
from kymograph.runs.record import RunResult, RunSeries, write_record
from kymograph.runs.spec import RunSpec
from kymograph.runs.store import Store
from tests.pictures.report.pages import NOW, PROVENANCE, Outline, arm_in, make_runs, store_of


def draw(form: str, store: Store, log: bool | None = None, series: str = "x", **facts: object) -> Chart | None:
    """Returns one chart of a series."""
    return PANELS.load(form)(ChartRequest("c", store, SeriesDisplay(series, series, series, log=log, **facts)))  # type: ignore[arg-type]


def test_every_kind_of_panel_is_found_and_small_pictures_come_first() -> None:
    assert PANELS.names()[:4] == ["nulls", "curves", "kymograph", "profile"]
    assert all(part.about for part in PANELS.parts().values())


def test_what_was_measured_as_zero_is_not_shown_as_missing(tmp_path: Path) -> None:
    store_of(tmp_path, {1: np.zeros(4), 2: np.zeros(4)})
    store = store_of(tmp_path, {1: np.ones(4)}, arm="other")
    chart = draw("curves", store, log=True)
    assert chart is not None and "exactly 0" in chart.caption
    arm = arm_in(chart.data, "arm")
    assert arm["values"] == [[0, 0, 0, 0], [0, 0, 0, 0]] and arm["n"] == [2, 2, 2, 2]
    store = store_of(tmp_path / "map", {1: np.concatenate([np.zeros((4, 2)), np.ones((4, 2))])})
    heat = draw("kymograph", store, log=True)
    assert heat is not None and "grey: exactly 0" in heat.caption
    assert heat.data["panels"][0]["values"][0][:4] == [0, 0, 0, 0]


def test_n_falls_where_seeds_drop_out(tmp_path: Path) -> None:
    gone = np.array([1.0, 2.0, np.nan, np.nan])
    chart = draw("curves", store_of(tmp_path, {1: gone, 2: gone, 3: np.arange(1.0, 5.0)}), log=False)
    assert chart is not None and chart.data["arms"][0]["n"] == [3, 3, 1, 1]
    assert "left out from that point on" in chart.caption and "arm (1 of 3 left)" in chart.caption


@pytest.mark.parametrize("form", ["kymograph", "profile"])
def test_an_arm_without_any_value_is_no_obstacle_to_the_others(tmp_path: Path, form: str) -> None:
    store_of(tmp_path, {1: np.full((3, 2), np.nan)}, arm="empty")
    chart = draw(form, store_of(tmp_path, {1: np.ones((3, 2)), 2: np.ones((3, 2))}))
    assert chart is not None and "over 2 seeds per arm" in chart.caption


@pytest.mark.parametrize("values", [[1e305, 1e-305, 1.0], [1.7e308, -1.7e308, 0.0], [5e-324, 1.0, 2.0], [5e-324] * 3])
@pytest.mark.parametrize("log", [True, False])
def test_the_largest_and_smallest_floats_are_drawn(tmp_path: Path, values: list[float], log: bool) -> None:
    chart = draw("curves", store_of(tmp_path, {1: np.array(values), 2: np.array(values)}), log=log)
    assert chart is None or "nan" not in str(chart.panels[0].picture)


def test_a_profile_has_each_arms_last_values_along_its_sites(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    chart = draw("profile", store, series="stream")
    assert chart is not None and chart.data["names"] == ["h_0", "h_1", "h_2", "h_3"]
    expected = store.series("stream").sel(arm="calm").values[:, -1]  # (seed, site)
    np.testing.assert_allclose(chart.data["arms"][0]["values"], expected, rtol=1e-4)
    assert draw("profile", store, series="loss") is None and draw("kymograph", store, series="loss") is None


def null_runs(root: Path, with_sites: bool) -> Store:
    rng = np.random.default_rng(0)
    for seed in (1, 2):
        draws = {name: rng.normal(size=(50, 3)) for name in ("drawn_a", "drawn_b", "drawn_c")}
        sites = ("first", "chosen", "last")
        series = {
            name: RunSeries(np.arange(50), value if with_sites else value[:, 1], sites if with_sites else None)
            for name, value in draws.items()
        }
        spec = RunSpec("mine", "arm", seed, {}, 1)
        write_record(root, spec, RunResult(series, {"seen": 2.5 + seed, "text": "x"}), PROVENANCE, 0.1)
    return Store.open(root)


@pytest.mark.parametrize("with_sites", [True, False])
def test_null_densities_and_observed_values_are_those_the_facts_name(tmp_path: Path, with_sites: bool) -> None:
    facts = {"observed": "seen", "site": "chosen", "nulls": {"drawn_a": "by chance", "drawn_b": "<permuted>"},
             "x_label": "how much"}  # fmt: skip
    store = null_runs(tmp_path, with_sites)
    display = SeriesDisplay("drawn_a", "Seen against drawn", "density", forms=("nulls",), options=facts)
    page = build_page(store, Verdicts(()), declarations={"mine": Declaration("mine", series=(display,))}, now=NOW)
    outline = Outline(page)
    (table,) = outline.charts()
    assert [row[-1] for row in table["rows"] if row[1] == "observed"] == [3.5, 4.5]
    assert {row[1] for row in table["rows"]} == {"drawn_a", "drawn_b", "observed"}
    chosen = np.concatenate([run.series["drawn_a"].value.reshape(50, -1)[:, 1 if with_sites else 0] for run in store])
    bars = [row for row in table["rows"] if row[1] == "drawn_a"]
    assert sum((row[4] - row[3]) * row[5] for row in bars) == pytest.approx(1, rel=1e-3), "a density"
    edges = np.array([bars[0][3], *(row[4] for row in bars)])
    expected = np.histogram(chosen, edges, density=True)[0]
    np.testing.assert_allclose([row[5] for row in bars], expected, rtol=0.2, atol=0.2)
    for text in ("by chance, 100 draws", "<permuted>, 100 draws", "arm, observed", "n = 2", "how much"):
        assert text in outline.text, text
    assert "not drawn here: drawn_c" in " ".join(outline.text.split()), "the nulls of the facts are drawn"


def test_however_many_nulls_each_has_its_ridge(tmp_path: Path) -> None:
    values = {f"null_{index}": RunSeries(np.arange(9), np.linspace(0, index, 9)) for index in range(1, 8)}
    write_record(tmp_path, RunSpec("mine", "arm", 1, {}, 1), RunResult(values, {"seen": 1}), {}, 0.1)
    facts = {"observed": "seen", "nulls": {name: name for name in values}}
    chart = draw("nulls", Store.open(tmp_path), series="null_1", options=facts)
    assert (
        chart is not None and str(chart.panels[0].picture).count('class="ridge"') == 7 and chart.series == tuple(values)
    )


def test_nothing_observed_is_nothing_drawn(tmp_path: Path) -> None:
    store = null_runs(tmp_path, True)
    nulls = {"drawn_a": "a"}
    for facts in (
        {"observed": "absent", "site": "chosen", "nulls": nulls},
        {"observed": "text", "site": "chosen", "nulls": nulls},
        {"observed": "seen", "site": "elsewhere", "nulls": nulls},
        {"observed": "seen", "nulls": {}},
    ):
        assert draw("nulls", store, series="drawn_a", options=facts) is None


STRIP = '''
"""Every seed's last value as a dot."""
from kymograph.pictures.report.charts import Chart, Key, Panel, table_data
from kymograph.pictures.report.svg import Frame, element, picture

PART = {"about": "every seed's last value as a dot", "order": 15}

def draw(request):
    array = request.array()
    rows = [(arm, seed, float(array.sel(arm=arm, seed=seed).values[-1]))
            for arm in array.labels["arm"] for seed in array.labels["seed"]]
    dots = [element("circle", class_="dot c0", data_tip=f"seed {seed}", cx=9.0, cy=9.0, r=2.0) for _, seed, _ in rows]
    panel = Panel("", picture(Frame(), request.display.title, *dots), (Key("dots", 0, f"n = {len(rows)}"),))
    return Chart(request.id, "Strip of " + request.display.title, (panel,), "From another package.",
                 table_data(("arm", "seed", "value"), rows))
'''


def test_a_panel_of_another_package_is_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    (site / "my_lab_panels-1.0.dist-info").mkdir(parents=True)
    (site / "my_lab_strip.py").write_text(STRIP)
    (site / "my_lab_panels-1.0.dist-info" / "METADATA").write_text("Name: my-lab-panels\nVersion: 1.0\n")
    (site / "my_lab_panels-1.0.dist-info" / "entry_points.txt").write_text("[kymograph.panels]\nstrip = my_lab_strip\n")
    monkeypatch.syspath_prepend(str(site))
    registry._in_packages.cache_clear()
    try:
        assert PANELS.names()[:3] == ["nulls", "strip", "curves"] and "my_lab_strip" not in sys.modules
        display = SeriesDisplay("loss", "Loss", "nats", forms=("curves", "strip"))
        store = make_runs(tmp_path / "runs")
        page = build_page(store, Verdicts(()), declarations={"own": Declaration("own", series=(display,))}, now=NOW)
    finally:
        registry._in_packages.cache_clear()
        sys.modules.pop("my_lab_strip", None)
    outline = Outline(page)
    figures = [attributes["id"] for tag, attributes in outline.elements if tag == "figure"]
    assert figures == ["study-own-loss-strip", "study-own-loss-curves"], "in the order that the kinds declare"
    assert "Strip of Loss" in outline.text and "From another package." in outline.text
    assert len(next(chart for chart in outline.charts() if chart["kind"] == "table")["rows"]) == 6
