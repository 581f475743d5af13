from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kymograph._pictures.canvas import LabFigure, legends, wrapped

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


def test_panels_that_share_their_curves_share_a_legend() -> None:
    figure = LabFigure(figsize=(4, 2), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes in panels:
        axes.plot([1, 2], label="a (n = 3)")
    legends(figure, panels)
    assert len(figure.legends) == 1 and figure.get_figheight() > 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a (n = 3)"]


def test_an_entry_that_differs_between_panels_says_where() -> None:
    """Such figures used to have one legend per panel, drawn over the room of the data."""
    figure = LabFigure(figsize=(8, 2), layout="constrained")
    panels = figure.subplots(1, 3)
    for axes, note in zip(panels, ("n = 3", "no value", "n = 3"), strict=True):
        axes.plot([1, 2], label=f"a, at 1 (late) ({note})")
        axes.plot([2, 1], label="b")
    legends(figure, panels)
    assert not any(axes.get_legend() for axes in panels)
    texts = [text.get_text() for text in figure.legends[0].get_texts()]
    assert texts == ["a, at 1 (late) (a, c: n = 3; b: no value)", "b"]


def test_curves_of_one_panel_keep_their_own_entries() -> None:
    figure = LabFigure(figsize=(8, 2), layout="constrained")
    axes = figure.subplots()
    for note in ("n = 3", "n = 2"):
        axes.plot([1, 2], label=f"a ({note})")
    legends(figure, [axes])
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a (n = 3)", "a (n = 2)"]


def test_a_name_too_long_for_the_figure_is_broken() -> None:
    figure = LabFigure(figsize=(1.6, 2), layout="constrained")
    axes = figure.subplots()
    axes.plot([1, 2], label="residual, not finite at 100 and beyond (n = 3)")
    legends(figure, [axes])
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert "\n" in legend.get_texts()[0].get_text()
    assert legend.get_window_extent().width <= figure.bbox.width
