from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kymograph.figures.layout import legends, legends_above_data, wrapped
from kymograph.figures.style import LabFigure

WORDS = st.lists(st.text("abc/_", min_size=1, max_size=12), min_size=1, max_size=8)


@given(WORDS, st.integers(4, 40))
def test_lines_fit_and_lose_nothing(words: list[str], room: int) -> None:
    text = wrapped(" ".join(words), len, room)
    assert text.replace("\n", "").replace(" ", "") == "".join(words)
    for line in text.split("\n"):
        pieces = line.replace("/", "/ ").replace("_", "_ ").split()
        assert len(line) <= room or len(pieces) == 1, "only what cannot be broken is longer"


@given(WORDS, st.integers(4, 40))
def test_no_more_lines_than_a_greedy_break_needs(words: list[str], room: int) -> None:
    if max(map(len, words)) > room:
        return
    count, used = 1, 0
    for word in words:
        if used and used + 1 + len(word) > room:
            count, used = count + 1, len(word)
        else:
            used += len(word) + bool(used)
    assert wrapped(" ".join(words), len, room).count("\n") + 1 == count


def test_formulas_and_no_break_spaces_are_not_broken() -> None:
    assert wrapped(r"$\nabla_{h_2} L$ (median)", len, 10) == "$\\nabla_{h_2} L$\n(median)"
    assert wrapped("|a b\N{NO-BREAK SPACE}| c", len, 6) == "|a\nb\N{NO-BREAK SPACE}| c"


@pytest.mark.parametrize("scale", ["linear", "log", "symlog"])
def test_data_end_below_the_legend(scale: str) -> None:
    figure = LabFigure(figsize=(3, 2), layout="constrained")
    axes = figure.subplots()
    for index in range(4):
        axes.plot(np.arange(1, 9), np.exp(np.arange(8.0)) * (index + 1), label=f"curve {index}")
    axes.set_yscale(scale)
    legends_above_data(figure, [axes])
    figure.draw_without_rendering()
    highest = axes.transData.transform((8, 4 * np.exp(7.0)))[1]
    legend = axes.get_legend()
    assert legend is not None and highest <= legend.get_window_extent().y0


def test_panels_that_share_their_curves_share_a_legend() -> None:
    figure = LabFigure(figsize=(4, 2), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes in panels:
        axes.plot([1, 2], label="a (n = 3)")
    legends(figure, panels)
    assert len(figure.legends) == 1 and figure.get_figheight() > 2
    panels[1].plot([2, 1], label="b (n = 2)")
    other = LabFigure(figsize=(4, 2), layout="constrained")
    different = other.subplots(1, 2)
    different[0].plot([1, 2], label="a (n = 3)")
    different[1].plot([1, 2], label="a (no value)")
    legends(other, different)
    assert not other.legends and all(axes.get_legend() for axes in different)


def test_a_name_too_long_for_its_panel_is_broken() -> None:
    figure = LabFigure(figsize=(1.6, 2), layout="constrained")
    axes = figure.subplots()
    axes.plot([1, 2], label="residual, not finite at 100 and beyond (n = 3)")
    legends_above_data(figure, [axes])
    figure.draw_without_rendering()
    legend = axes.get_legend()
    assert legend is not None and "\n" in legend.get_texts()[0].get_text()
    assert legend.get_window_extent().width <= 1.1 * axes.bbox.width
