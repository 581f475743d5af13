from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.colors import to_hex, to_rgba

from kymograph._errors import KymographError
from kymograph._pictures.canvas import MISSING, LabFigure
from kymograph._pictures.kymograph import ZERO, draw_kymographs, few_ticks, kymograph
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
    assert figure.columns[3] == "mean" and any("\n(mean over seeds)" in axes.get_ylabel() for axes in figure.axes)


def test_a_positive_series_has_a_log_scale_and_sites_are_called_what_the_study_calls_them(tmp_path: Path) -> None:
    figure = drawn_kymograph(tmp_path / "a", "stream")
    mesh = figure.axes[0].collections[0]
    assert mesh.get_cmap().name == MAP and mesh.norm.vmin > 0 and figure.columns[3] == "geometric_mean"
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


def labelled(
    values: np.ndarray, sites: Sequence[str], arms: Sequence[str] = ("a",), **sites_of: Sequence[str]
) -> LabelledArray:
    """Returns an array of ``values`` (arm, seed, step, site); ``sites_of`` are the sites that each arm has."""
    labels = {"arm": tuple(arms), "seed": tuple(range(values.shape[1])), "step": tuple(range(values.shape[2])),
              "site": tuple(sites)}  # fmt: skip
    have = {arm: tuple(sites_of.get(arm, sites)) for arm in arms}
    return LabelledArray("x", values, ("arm", "seed", "step", "site"), labels, have)


BLOCKS = tuple(f"h.{block}{part}" for block in range(6) for part in ("", ".attn", ".mlp.fc", ".mlp.act"))
NETWORK = ("embed", *BLOCKS, "norm", "head")


def spread_out(sites: Sequence[str], arms: int = 1) -> np.ndarray:
    """Returns positive values (arm, seed, step, site), those of every family of `NETWORK` in a range of their own."""
    sizes = [10.0 ** (1 + len(site.split("."))) + index for index, site in enumerate(sites)]
    return np.ones((arms, 2, 5, 1)) * np.linspace(1, 2, 5)[:, None] * np.array(sizes)


def panels_of(figure: LabFigure) -> list[Any]:
    """Returns the axes that are maps."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def texts_of(figure: LabFigure) -> str:
    return "\n".join(text.get_text() for text in figure.texts)


def ticks_of(axes: Any) -> list[str]:
    return [label.get_text() for label in axes.get_yticklabels()]


def legend_of(figure: LabFigure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_labels_of_many_rows_name_existing_sites() -> None:
    """Eighteen layers used to be numbered 0.0, 2.5, 5.0, and twelve of them "24" and "27"."""
    sites = [f"layer {number}" for number in range(40)]
    figure = kymograph(labelled(spread_out(sites), sites), "title", "norm")
    (panel,) = panels_of(figure)
    assert set(ticks_of(panel)) <= set(sites) and len(ticks_of(panel)) > 10
    assert all(sites[round(at)] == text for at, text in zip(panel.get_yticks(), ticks_of(panel), strict=True))


def test_a_network_has_a_map_per_family_each_with_its_own_scale() -> None:
    """It used to be one map of 27 rows on one scale."""
    figure = kymograph(labelled(spread_out(NETWORK), NETWORK), "title", "norm")
    panels = panels_of(figure)
    assert [len(axes.collections[0].get_array()) for axes in panels] == [6, 6, 6, 6, 3]
    assert [ticks_of(axes)[0] for axes in panels] == ["0"] * 4 + ["embed"]
    assert set(ticks_of(panels[0])) <= set("012345") and ticks_of(panels[-1]) == ["embed", "norm", "head"]
    for name in ("h.*\n(blocks)", "attn", "mlp.fc", "mlp.act", "single layers"):
        assert name in [text.get_text() for text in figure.texts]
    assert len({axes.collections[0].norm.vmin for axes in panels}) == len(panels)
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    assert len(bars) == len(panels)
    heights = [axes.get_position().height for axes in panels]
    assert heights[0] > 2 * max(heights[1:4]) and len({axes.get_xlim() for axes in panels}) == 1
    assert {(row[2], row[4]) for row in figure.rows} >= {("h.0", "h.*"), ("h.3.mlp.fc", "mlp.fc")}
    assert figure.columns == ("arm", "step", "site", "geometric_mean", "map", "state")


def test_arms_are_columns_whose_rows_are_matched_by_name() -> None:
    """The second arm lacks a block's part; its later rows used to be those of other layers."""
    values, less = spread_out(NETWORK, arms=2), [site for site in NETWORK if site != "h.1.attn"]
    values[1, :, :, NETWORK.index("h.1.attn")] = np.nan
    values[1, :, :, NETWORK.index("h.4.attn")] *= 7
    figure = kymograph(labelled(values, NETWORK, ("a", "b"), b=less), "title", "norm")
    panels = panels_of(figure)
    assert len(panels) == 10 and [axes.get_title() for axes in panels[:2]] == ["a (n = 2)", "b (n = 2)"]
    one, other = (np.ma.filled(axes.collections[0].get_array(), np.nan) for axes in panels[2:4])
    np.testing.assert_allclose(other[4], 7 * one[4])
    np.testing.assert_allclose(other[[0, 2, 3, 5]], one[[0, 2, 3, 5]])
    (hatched,) = panels[3].patches
    assert hatched.get_hatch() and hatched.get_y() == 0.5 and hatched.get_height() == 1.0
    assert not panels[2].patches and legend_of(figure) == ["no such layer"]
    states = {(row[0], row[2]): row[5] for row in figure.rows}
    assert states["b", "h.1.attn"] == "absent" and states["a", "h.1.attn"] == "value"


@pytest.mark.parametrize("sites", [NETWORK[:6], NETWORK], ids=["one map", "several"])
def test_zero_no_value_and_no_layer_look_different_and_the_legend_lists_those_that_occur(
    sites: tuple[str, ...],
) -> None:
    """All three used to be grey."""
    plain = kymograph(labelled(spread_out(sites, arms=2), sites, ("a", "b")), "title", "norm")
    assert not legend_of(plain)
    values = spread_out(sites, arms=2)
    values[0, :, 2, 1], values[0, :, :, 2], values[1, :, :, 3] = 0.0, np.nan, np.nan
    figure = kymograph(labelled(values, sites, ("a", "b"), b=[*sites[:3], *sites[4:]]), "title", "norm")
    assert legend_of(figure) == ["exactly 0", "not measured, not finite, or no gradient", "no such layer"]
    zero = [mesh for axes in panels_of(figure) for mesh in axes.collections[1:]]
    assert len(zero) == 1 and np.ma.count(zero[0].get_array()) == 1
    assert to_hex(zero[0].get_cmap()(0)).upper() == ZERO and panels_of(figure)[0].get_facecolor() == to_rgba(MISSING)
    assert sum(len(axes.patches) for axes in panels_of(figure)) == 1
    assert {row[5] for row in figure.rows} == {"value", "zero", "missing", "absent"}
    (at_zero,) = {row[3] for row in figure.rows if row[5] == "zero"}
    assert at_zero == 0.0


def test_zero_has_a_colour_of_a_linear_scale() -> None:
    values = spread_out(NETWORK)
    values[0, :, 2, 1] = 0.0
    figure = kymograph(labelled(values, NETWORK), "title", "norm", log=False)
    assert not legend_of(figure) and all(len(axes.collections) == 1 for axes in panels_of(figure))


def test_arms_of_different_networks_have_rows_of_their_own() -> None:
    mlp = tuple(map(str, range(20)))
    both = (*NETWORK, *mlp)
    values = spread_out(both, arms=2)
    values[0, :, :, len(NETWORK) :] = values[1, :, :, : len(NETWORK)] = np.nan
    figure = kymograph(labelled(values, both, ("a", "b"), a=NETWORK, b=mlp), "title", "norm")
    panels = panels_of(figure)
    assert [axes.get_title() for axes in panels] == ["a (n = 2)", "", "", "", "", "b (n = 2)"]
    assert ticks_of(panels[-1])[0] == "0" and len(panels[-1].collections[0].get_array()) == 20
    assert len({axes.get_position().x0 for axes in panels}) == 1 and not legend_of(figure)


def test_layers_that_never_ran_are_named_below_and_a_branch_without_gradient_stays() -> None:
    values = spread_out(NETWORK)
    drop = [site for site in NETWORK if site.endswith("act")]
    values[..., [NETWORK.index(site) for site in (*drop, "h.2.attn")]] = np.nan
    figure = kymograph(labelled(values, NETWORK), "title", "norm", without_value=drop)
    assert "Left out, because they never ran: h.*.mlp.act (6 sites)." in texts_of(figure)
    assert [len(axes.collections[0].get_array()) for axes in panels_of(figure)] == [6, 6, 6, 3]
    assert legend_of(figure) == ["not measured, not finite, or no gradient"]
    few = kymograph(labelled(values[..., :4], NETWORK[:4]), "title", "norm", without_value=NETWORK[3:4])
    assert ticks_of(panels_of(few)[0]) == list(NETWORK[:3]) and "never ran: h.0.mlp.fc." in texts_of(few)


def test_a_family_or_all_sites_are_drawn_on_request() -> None:
    array = labelled(spread_out(NETWORK), NETWORK)
    (panel,) = panels_of(figure := kymograph(array, "title", "norm", family="h.*.mlp.fc"))
    assert ticks_of(panel) == list("012345") and figure.caption == "title: h.*.mlp.fc"
    assert len(panels_of(kymograph(array, "title", "norm", family="h.*.mlp.**"))) == 2
    (panel,) = panels_of(figure := kymograph(array, "title", "norm", all_sites=True))
    assert ticks_of(panel) == list(NETWORK) and figure.get_figheight() / len(NETWORK) > 0.12, "every name is legible"
    with pytest.raises(KymographError, match=r"no family or site matches 'h\.\*\.fc'"):
        kymograph(array, "title", "norm", family="h.*.fc")


def test_where_there_is_no_room_for_a_map_it_is_named() -> None:
    sites = [f"h.{block}.part{chr(97 + part)}" for block in range(12) for part in range(26)]
    figure = kymograph(labelled(spread_out(sites), sites), "title", "norm")
    drawn = len(panels_of(figure))
    assert 10 < drawn < 26 and figure.get_figheight() < 15
    named = next(text.get_text() for text in figure.texts if "not drawn here" in text.get_text()).replace("\n", " ")
    assert named.count("h.*.part") == 26 - drawn and "draw one with --family PATTERN" in named
    slide = kymograph(labelled(spread_out(sites), sites), "title", "norm", style="slides")
    assert slide.get_figheight() < 8 and 1 <= len(panels_of(slide)) < drawn


@pytest.mark.parametrize("style", ["notebook", "paper", "slides"])
def test_no_text_of_many_maps_is_cut_off_or_lies_on_another(style: str) -> None:
    values = spread_out(NETWORK, arms=3)
    values[0, :, 1, 4] = 0.0
    long = [site.replace("mlp", "feed_forward_network.inner") for site in NETWORK]
    figure = kymograph(labelled(values, long, ("a", "b", "the third of the arms")), "title", "norm", style=style)
    figure.draw_without_rendering()
    of_axes = [(axes.title, axes.xaxis.label, *axes.get_yticklabels()) for axes in figure.axes]
    texts = [text for texts in (figure.texts, *of_axes) for text in texts if text.get_text() and text.get_visible()]
    boxes = {text: text.get_window_extent().extents for text in texts}
    names = list(boxes)
    for index, one in enumerate(names):
        (x0, y0), (x1, y1) = boxes[one].reshape(2, 2)
        assert x0 >= -1 and x1 <= figure.bbox.width + 1 and y0 >= -1 and y1 <= figure.bbox.height + 1, one.get_text()
        for other in names[index + 1 :]:
            overlap = np.minimum(boxes[one][2:], boxes[other][2:]) - np.maximum(boxes[one][:2], boxes[other][:2])
            assert overlap.min() <= 2, f"{one.get_text()!r} lies on {other.get_text()!r}"


@given(
    low=st.floats(1e-12, 1e12), factor=st.floats(1.0001, 1e9), log=st.booleans(), most=st.integers(2, 5),
    negative=st.booleans(),
)  # fmt: skip
def test_ticks_of_a_small_bar_are_few_and_inside(
    low: float, factor: float, log: bool, most: int, negative: bool
) -> None:
    low, high = (-low * factor, low * factor) if negative and not log else (low, low * factor)
    ticks = few_ticks(low, high, log, most)
    assert 2 <= len(ticks) <= max(most, 2) and ticks == sorted(ticks)
    assert low * (1 - 1e-9) - 1e-300 <= ticks[0] or negative
    assert all(low - abs(low) * 1e-9 <= tick <= high + abs(high) * 1e-9 for tick in ticks)


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
