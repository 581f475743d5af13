"""The figures of verdicts: paired differences and effects over a grid."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import kymograph
from kymograph._errors import KymographError
from kymograph._pictures import claim_figures
from kymograph._pictures.figures import figure_names
from kymograph._pictures.report_page.assets import template
from kymograph._pictures.styles import COLOURS
from kymograph._runs.declaration import Declaration
from kymograph._runs.store import Store
from tests.pictures.drawn import points_outside
from tests.pictures.report.pages import make_runs
from tests.studies.tossing import REFERENCE, Tossing
from tests.studies.warmup_example import warmup_study


@pytest.fixture(scope="module")
def tossed(tmp_path_factory: pytest.TempPathFactory) -> Store:
    out = tmp_path_factory.mktemp("tossed")
    return kymograph.run(
        REFERENCE, n_seeds=10, out=out, quiet=True, engine="serial", grid={"shift": [0.0, 1.0, 3.0], "faces": [2, 6]}
    )


def test_every_seed_of_every_claim_is_drawn_with_its_effect(tmp_path: Path) -> None:
    store = kymograph.run(REFERENCE, n_seeds=10, out=tmp_path, quiet=True, engine="serial", shift=3.0)
    assert "tossing-differences" in figure_names(store) and "tossing-grid" not in figure_names(store)
    figure = kymograph.figure("tossing-differences", store)
    (verdict,) = kymograph.judge(tmp_path, studies=[Tossing()])
    rows = [dict(zip(figure.columns, row, strict=True)) for row in figure.rows]  # type: ignore[attr-defined]
    drawn = {row["seed"]: row["value"] for row in rows}
    assert {seed: drawn[seed] for seed in store.seeds} == {point.seed: point.value for point in verdict.points}
    assert verdict.interval is not None and (drawn["effect"], drawn["low"]) == (verdict.effect, verdict.interval[0])
    (axes,) = figure.axes
    assert "SUPPORTED, n = 10" in axes.get_title() and axes.get_xlabel() == "x: tails − heads"


def test_ratios_are_drawn_on_a_log_axis_with_the_margin(tmp_path: Path) -> None:
    store = warmup_study.run(n_seeds=6, out=tmp_path, quiet=True, steps=4)
    names = figure_names(store, [warmup_study])
    assert names == ["warmup-curves", "warmup-kymograph", "warmup-profiles", "warmup-differences"]
    figure = kymograph.figure("warmup-differences", store)
    (axes,) = figure.axes
    assert axes.get_xscale() == "log" and axes.get_xlabel() == "final loss: warmup / constant"
    lines = {tuple(np.asarray(line.get_xdata()).tolist()) for line in axes.lines}
    assert {(1.0, 1.0), (1.1, 1.1), (1 / 1.1, 1 / 1.1)} <= lines, "no effect, and both ends of the margin"


def test_a_claim_that_cannot_be_decided_says_why(tmp_path: Path) -> None:
    store = kymograph.run(REFERENCE, seeds=[1, 2], out=tmp_path, quiet=True, engine="serial")
    figure = kymograph.figure("tossing-differences", store)
    assert any("INVALID: 2 seeds" in text.get_text() for text in figure.axes[0].texts)


def test_a_study_without_claims_has_no_differences(tmp_path: Path) -> None:
    store = make_runs(tmp_path)
    assert "own-differences" not in figure_names(store)
    with pytest.raises(KymographError, match="no claim of own was judged"):
        kymograph.figure("own-differences", store)


def test_dots_of_near_values_are_stacked_and_far_ones_are_not() -> None:
    assert claim_figures.stacked(np.array([0.0, 1.0, 2.0])).tolist() == [0, 0, 0]
    heights = claim_figures.stacked(np.array([0.0, 0.001, 0.002, 1.0]))
    assert len(set(heights[:3].tolist())) == 3 and heights[3] == 0


def test_the_grid_shows_every_verdict_by_colour_and_marker(tossed: Store) -> None:
    assert "tossing-grid" in figure_names(tossed)
    figure = kymograph.figure("tossing-grid", tossed)
    verdicts = kymograph.judge(tossed.root, studies=[Tossing()])  # type: ignore[arg-type]
    rows = [dict(zip(figure.columns, row, strict=True)) for row in figure.rows]  # type: ignore[attr-defined]
    assert {(row["panel"], row["x"], row["outcome"], row["effect"]) for row in rows} == {
        (f"faces {one.claim.left.where['faces']}", one.claim.left.where["shift"], one.outcome, one.effect)
        for one in verdicts
    }
    first, second = figure.axes
    assert first.get_ylim() == second.get_ylim() and first.get_xscale() == "linear"
    assert "faces 2, n = 10" in first.get_title() and first.get_xlabel() == "shift"
    markers = {(line.get_marker(), line.get_color()) for line in first.lines if line.get_marker() != "None"}
    assert markers == {(marker, colour) for outcome in {row["outcome"] for row in rows if row["panel"] == "faces 2"}
                       for colour, marker in [claim_figures.OUTCOME_STYLES[outcome]]}  # fmt: skip
    differing = kymograph.figure("tossing-differences", tossed)
    assert len(differing.axes) == 1 and len(differing.axes[0].get_yticks()) == 6, "a row per point"


def test_geometric_values_have_a_log_axis() -> None:
    assert all(claim_figures.is_geometric(values) for values in ([0.3, 0.1, 0.03, 0.01], [1, 2, 4, 8], [1, 10]))
    others: list[list] = [[1, 2, 3], [0, 1, 10], [1, 2], ["a", "b"], [True, False]]
    assert not any(claim_figures.is_geometric(values) for values in others)


def test_outcomes_differ_in_colour_and_in_marker() -> None:
    styles = list(claim_figures.OUTCOME_STYLES.values())
    assert len({colour for colour, _ in styles}) == len({marker for _, marker in styles}) == len(styles)
    colours = {
        colour for outcome, (colour, _) in claim_figures.OUTCOME_STYLES.items() if outcome != "INCONCLUSIVE"
    }  # it is grey
    assert colours <= set(COLOURS), "safe for colour-blind readers"


def test_an_outcome_has_the_same_colour_in_figures_and_in_the_report() -> None:
    """In figures SUPPORTED used to be blue, which in the report and the terminal is EQUIVALENT."""
    light = template("report.css").split("/*light colours*/")[0]
    marks = dict(re.findall(r"--(\w+)-mark:#(\w{6});", light))
    assert set(marks) == {outcome.lower() for outcome in claim_figures.OUTCOME_STYLES}

    def rgb(colour: str) -> np.ndarray:
        return np.array([int(colour[at : at + 2], 16) for at in (0, 2, 4)], dtype=float)

    for outcome, (colour, _) in claim_figures.OUTCOME_STYLES.items():
        distances = {name: float(np.linalg.norm(rgb(colour[1:]) - rgb(mark))) for name, mark in marks.items()}
        assert min(distances, key=distances.__getitem__) == outcome.lower()


def test_figures_of_claims_hide_nothing_and_their_labels_fit_their_axes(tossed: Store) -> None:
    """The label of a low panel used to be taller than its axis and to run into the panel on its left."""
    for name in ("tossing-grid", "tossing-differences"):
        figure = kymograph.figure(name, tossed)
        assert points_outside(figure) == []
    heading = Declaration("tossing", headlines={"x": "the share of tosses that show heads, of all of them"})
    figure = claim_figures.draw_grid(tossed, heading, kymograph.judge(tossed.root, studies=[Tossing()]))  # type: ignore[arg-type]
    figure.draw_without_rendering()
    for axes in figure.axes:
        assert axes.yaxis.label.get_window_extent().height <= 1.1 * axes.bbox.height
