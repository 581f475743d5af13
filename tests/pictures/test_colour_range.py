from __future__ import annotations

import numpy as np

from kymograph.pictures.kymograph import kymograph
from kymograph.pictures.scales import colour_values, relative_to_start
from kymograph.runs.store import LabelledArray


def test_the_first_step_does_not_consume_the_colours() -> None:
    training = np.geomspace(1.0, 10.0, 12).reshape(6, 2)
    start = np.array([[1e6, 1e7]])
    panel = np.concatenate([start, training])
    assert colour_values([panel], log=True).max() == 10.0
    level = np.array([[1.0, 10.0], [1.5, 9.0], [1.1, 9.9]])
    assert len(colour_values([level], log=True)) == 6, "a start among the others is one of them"
    assert len(colour_values([np.ones((3, 2))], log=True)) == 6, "equal values have no range to consume"
    assert len(colour_values([np.full((3, 2), np.nan)], log=False)) == 0


def test_a_figures_bar_says_where_values_lie_beyond_it() -> None:
    values = np.concatenate([[[1e6, 1e7]], np.geomspace(1.0, 10.0, 12).reshape(6, 2)])[None, None]
    labels = {"arm": ("a",), "seed": (1,), "step": tuple(range(7)), "site": ("h_0", "h_1")}
    array = LabelledArray("x", values, ("arm", "seed", "step", "site"), labels)
    figure = kymograph(array, "title", "‖h_ℓ‖", labels={"a": "An arm"})
    bar = next(axes for axes in figure.axes if axes.get_label() == "<colorbar>")
    colours = bar._colorbar  # type: ignore[attr-defined]
    assert colours.extend == "max" and abs(colours.vmax - 10.0) < 1e-9
    assert figure.axes[0].get_title() == "An arm (n = 1)"


def test_relative_values_start_at_one() -> None:
    panel = np.array([[np.nan, np.nan], [2.0, 0.0], [4.0, 3.0]])
    found = relative_to_start(panel)
    np.testing.assert_array_equal(found[1:, 0], [1.0, 2.0])
    assert np.isnan(found[:, 1]).all(), "there is no ratio to 0"


def test_many_sites_are_numbered_with_whole_numbers() -> None:
    """Eighteen layers used to be numbered 0.0, 2.5, 5.0."""
    values = np.geomspace(1.0, 10.0, 36).reshape(1, 1, 2, 18)
    sites = tuple(f"layer {number}" for number in range(18))
    labels = {"arm": ("a",), "seed": (1,), "step": (0, 1), "site": sites}
    figure = kymograph(LabelledArray("x", values, ("arm", "seed", "step", "site"), labels), "title", "norm")
    assert all(float(tick).is_integer() for tick in figure.axes[0].get_yticks())
