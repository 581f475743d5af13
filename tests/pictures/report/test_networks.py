"""Kymographs and profiles of networks with many layers: families, three looks, arms of another architecture."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from kymograph._claims.verdict import Verdicts
from kymograph._pictures.report_page.charts import Chart, ChartRequest
from kymograph._pictures.report_page.page import build_page
from kymograph._pictures.report_page.sections import PANELS
from kymograph._runs.declaration import SeriesDisplay
from kymograph._runs.record import RunResult, RunSeries
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from tests.pictures.report.pages import BLOCK, NOW, llama_sites, make_networks, store_of
from tests.records import write_record

SIX = llama_sites(6)


def draw(form: str, store: Store, series: str = "output_norm") -> Chart:
    """Returns one chart of a series."""
    chart = PANELS.load(form)(ChartRequest("c", store, SeriesDisplay(series, series, series)))
    assert chart is not None
    return chart


def texts(chart: Chart, panel: int = 0) -> list[str]:
    """Returns the words in a picture, without tooltips."""
    plain = re.sub(r"<title>.*?</title>", "", str(chart.panels[panel].picture))
    return re.findall(r"<text[^>]*>([^<]*)", plain)


def test_a_transformer_has_a_map_per_family_with_its_own_scale_and_names_of_existing_rows(tmp_path: Path) -> None:
    chart = draw("kymograph", make_networks(tmp_path, {"a": SIX, "b": SIX}))
    (layout,) = chart.data["layouts"]
    counts = [count for _, _, count in layout["maps"]]
    assert counts == [6] * (len(BLOCK) - 1) + [3], "blocks, families, and single layers"
    assert layout["sites"][:6] == tuple(f"model.layers.{block}" for block in range(6))
    assert layout["maps"][0][1] > 2 * layout["maps"][1][1], "the stream is large"
    assert {"model.layers.*", "self_attn.q_proj", "mlp.up_proj", "single layers"} <= set(texts(chart))
    rows = re.findall(rf'<text x="{layout["box"][0] - 6}"[^>]*>([^<]*)', str(chart.panels[0].picture))
    assert rows[:6] == list("012345") and set(rows) == {*"012345", "…embed_tokens", "model.norm", "lm_head"}
    assert "Never ran, left out: model.layers.*.mlp.drop (6 sites)." in chart.caption
    assert chart.foot is None and "for each map" in chart.caption, "each scale is next to its title"
    assert len(set(re.findall(r'class="view as-measured"><text[^>]*>[^<]*', str(chart.panels[0].picture)))) == 10
    tops = [top for top, _, _ in layout["maps"]]
    ends = [top + height for top, height, _ in layout["maps"]]
    assert all(end < top for end, top in zip(ends, tops[1:], strict=False)), "no map lies on another"


def test_few_sites_are_one_map_with_one_scale_below_it(tmp_path: Path) -> None:
    chart = draw("kymograph", make_networks(tmp_path, {"a": list("abcd")}))
    (layout,) = chart.data["layouts"]
    assert len(layout["maps"]) == 1 and chart.foot is not None and chart.legend is None
    assert [word for word in texts(chart) if word in "abcd"] == list("abcd")


def test_three_looks_are_explained_where_they_occur(tmp_path: Path) -> None:
    store = make_networks(tmp_path, {"shorter": llama_sites(4), "longer": SIX})
    plain, gradients = (draw("kymograph", store, name) for name in ("output_norm", "output_gradient_norm"))
    legends = [re.findall(r"<span>([^<]*)", str(chart.legend)) for chart in (plain, gradients)]
    assert legends == [["no such layer"], ["exactly 0", "not measured, not finite, or no gradient", "no such layer"]]
    long, short = gradients.data["panels"]
    sites = gradients.data["layouts"][0]["sites"]
    assert short["values"][sites.index("model.layers.5")] is None and long["values"][sites.index("model.layers.5")]
    at = sites.index("model.layers.1.self_attn.v_proj")
    assert set(long["values"][at]) == {0.0} and long["counts"][at] == 2
    at = sites.index("model.layers.2.self_attn.k_proj")
    assert set(long["values"][at]) == {None} and long["counts"][at] == 0
    assert str(gradients.panels[0].picture).count("<mask") == 1, "v_proj of block 1 has no colour, and one look"
    assert str(gradients.panels[1].picture).count('fill="url(#c-1-absent)"') == 2 * (len(BLOCK) - 1)


def test_a_linear_scale_has_a_colour_for_zero(tmp_path: Path) -> None:
    chart = draw("kymograph", store_of(tmp_path, {1: np.array([[0.0, 1.0], [1.0, 2.0], [2.0, 0.0]])}), "x")
    assert chart.legend is None and "mask" not in str(chart.panels[0].picture).split('class="view relative"')[0]


def test_arms_of_another_architecture_have_rows_of_their_own(tmp_path: Path) -> None:
    chart = draw("kymograph", make_networks(tmp_path, {"llama": SIX, "mlp": [str(at) for at in range(20)]}))
    assert [len(layout["sites"]) for layout in chart.data["layouts"]] == [6 * (len(BLOCK) - 1) + 3, 20]
    assert [panel["layout"] for panel in chart.data["panels"]] == [0, 1]
    assert all(row is not None for panel in chart.data["panels"] for row in panel["values"])
    assert chart.legend is None and "rows and scales of their own" in chart.caption
    profile = draw("profile", Store.open(tmp_path))
    assert [panel.title for panel in profile.panels][-1] == "all layers, mlp"


def test_a_profile_of_many_layers_is_a_plot_per_family_over_its_depth(tmp_path: Path) -> None:
    chart = draw("profile", make_networks(tmp_path, {"a": SIX, "b": SIX}), "output_gradient_norm")
    assert chart.multiples and len(chart.panels) == len(BLOCK) == len(chart.data["plots"])
    assert chart.panels[1].title == "self_attn.q_proj" and chart.panels[1].about == "model.layers.*.self_attn.q_proj"
    plot = chart.data["plots"][1]
    assert plot["names"][0] == "model.layers.0.self_attn.q_proj"
    assert plot["y"][4] == 1 == chart.data["plots"][3]["y"][4], "values over decades, and a zero among them"
    assert str(chart.panels[3].picture).count('class="zero') == 2, "one for each arm, at the edge"
    assert "Hollow points at the lower edge are exactly 0" in chart.caption and "Never ran" in chart.caption
    assert "".join(texts(chart, 1)).endswith("012345output_gradient_norm (log scale)depth index")


def test_a_profile_names_each_of_a_hundred_layers(tmp_path: Path) -> None:
    """More than eighty used to be averaged in pairs, and a pair has no name."""
    sites = tuple(str(at) for at in range(100))
    series = {"x": RunSeries(np.arange(2), np.ones((2, 100)), sites)}
    write_record(tmp_path, RunSpec("own", "a", 0, {}, 1), RunResult(series, {}), {}, 0.1)
    chart = draw("profile", Store.open(tmp_path), "x")
    assert chart.data["arms"][0]["x"] == list(range(100)) and len(chart.data["names"]) == 100


def test_a_page_of_a_transformer_is_small_enough_to_send(tmp_path: Path) -> None:
    quantities = [f"q{index}" for index in range(6)]
    sites = llama_sites(7)  # 66 that run
    store = make_networks(tmp_path, {"a": sites, "b": sites}, seeds=10, steps=200, quantities=quantities)
    page = build_page(store, Verdicts(()), now=NOW)
    assert len(page.encode()) < 3e6
