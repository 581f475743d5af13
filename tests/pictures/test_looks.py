from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

import kymograph
from kymograph.errors import KymographError
from kymograph.pictures.figures import figure_names, list_figures
from kymograph.pictures.kymograph import kymograph as draw_kymograph
from kymograph.pictures.saving import save_figure
from kymograph.pictures.styles import STYLES, choose_style, current_style, drawing_in
from kymograph.runs.store import Store
from kymograph.studies.loading import list_studies
from kymograph.studies.study import StudyFigure, about


def test_a_venue_sets_width_and_font_sizes() -> None:
    from tueplots import figsizes, fontsizes

    icml, neurips = choose_style(venue="icml2024"), choose_style("paper", "neurips2024")
    assert icml.narrow == pytest.approx(figsizes.icml2024_half()["figure.figsize"][0]) == 3.25
    assert icml.wide == pytest.approx(figsizes.icml2024_full()["figure.figsize"][0]) == 6.75
    assert neurips.narrow == neurips.wide == 5.5
    for name, size in fontsizes.neurips2024().items():
        assert neurips.rc[name] == size
    for venue in ("iclr2024", "jmlr2001", "aistats2023", "cvpr2024", "tmlr2023", "uai2023"):
        assert 3 < choose_style(venue=venue).narrow < 7  # type: ignore[operator]


def test_looks_that_do_not_exist_are_named() -> None:
    assert choose_style() is STYLES["notebook"] and choose_style("slides") is STYLES["slides"]
    with pytest.raises(KymographError, match="no style 'papr'; did you mean 'paper'"):
        choose_style("papr")
    with pytest.raises(KymographError, match="no venue 'neurips2042'; did you mean 'neurips202"):
        choose_style(venue="neurips2042")
    with pytest.raises(KymographError, match="drop the venue or the style 'notebook'"):
        choose_style("notebook", "icml2024")


def test_without_tueplots_one_sentence_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tueplots", None)
    with pytest.raises(KymographError, match=r"kymograph\[paper\]"):
        choose_style(venue="icml2024")
    assert choose_style("paper").wide, "a paper without a venue needs no extra"


def test_a_look_holds_inside_its_block_only() -> None:
    with pytest.raises(RuntimeError), drawing_in(STYLES["slides"]):
        assert current_style() is STYLES["slides"]
        raise RuntimeError
    assert current_style() is STYLES["notebook"]


@pytest.mark.slow
def test_a_figure_has_exactly_the_venues_width(depth_store: Store, tmp_path: Path) -> None:
    for name, width in (("depth-loss", 3.25), ("depth-kymograph", 6.75)):
        figure = kymograph.figure(name, depth_store, venue="icml2024")
        assert figure.get_figwidth() == width
        save_figure(figure, tmp_path, name, ["pdf", "svg"])
        box = (tmp_path / f"{name}.pdf").read_bytes().split(b"/MediaBox [")[1].split(b"]")[0].split()
        assert float(box[2]) == pytest.approx(72 * width)
        assert f'width="{72 * width:g}pt"' in (tmp_path / f"{name}.svg").read_text()


def test_functions_take_a_style_too(depth_store: Store) -> None:
    figure = draw_kymograph(depth_store.series("stream_norm"), "The stream", "norm", style="paper")
    assert figure.get_figwidth() == STYLES["paper"].wide and figure.caption == "The stream"
    assert figure.get_suptitle() == "", "a caption stands below it"
    with drawing_in(STYLES["paper"]):
        assert draw_kymograph(depth_store.series("stream_norm"), "x", "norm").style is STYLES["paper"]
    assert draw_kymograph(depth_store.series("stream_norm"), "The stream", "norm").get_suptitle() == "The stream"


def test_fonts_are_embedded_as_fonts_and_nothing_tells_the_time(depth_store: Store, tmp_path: Path) -> None:
    save_figure(kymograph.figure("depth-loss", depth_store, style="paper"), tmp_path, "x")
    pdf, svg, png = ((tmp_path / f"x.{kind}").read_bytes() for kind in ("pdf", "svg", "png"))
    assert b"/Type3" not in pdf and (b"/CIDFontType2" in pdf or b"/TrueType" in pdf)
    assert b"STIXGeneral" in pdf and b"Date" not in pdf and b"atplotlib" not in pdf
    assert b"<dc:date>" not in svg and b"<text" not in svg, "letters are outlines"
    assert b"Software" not in png


@pytest.mark.slow
def test_bytes_depend_on_neither_process_nor_clock_nor_settings(depth_store: Store, tmp_path: Path) -> None:
    code = """
import sys, matplotlib
from pathlib import Path
import kymograph
from kymograph.pictures.saving import save_figure
matplotlib.rcParams.update({"font.size": float(sys.argv[3]), "axes.grid.which": "both"})
store = kymograph.Store.open(sys.argv[1])
save_figure(kymograph.figure("depth-loss", store, style="paper"), Path(sys.argv[2]), "x")
"""
    for name, seed, epoch in (("a", "1", "1000000000"), ("b", "2", "1700000000")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "SOURCE_DATE_EPOCH": epoch}
        words = [sys.executable, "-c", code, str(depth_store.root), str(tmp_path / name), str(10 * int(seed))]
        subprocess.run(words, check=True, env=environment)
    for kind in ("png", "pdf", "svg", "csv"):
        assert (tmp_path / "a" / f"x.{kind}").read_bytes() == (tmp_path / "b" / f"x.{kind}").read_bytes(), kind


def test_the_callers_settings_reach_no_figure(depth_store: Store, tmp_path: Path) -> None:
    save_figure(kymograph.figure("depth-loss", depth_store), tmp_path / "plain", "x", ["png"])
    with matplotlib.rc_context({"font.size": 30, "text.usetex": True, "axes.facecolor": "red"}):
        save_figure(kymograph.figure("depth-loss", depth_store), tmp_path / "mine", "x", ["png"])
        assert matplotlib.rcParams["font.size"] == 30
    assert (tmp_path / "plain" / "x.png").read_bytes() == (tmp_path / "mine" / "x.png").read_bytes()


def boxes(figure: Figure) -> dict[str, np.ndarray]:
    """Where titles, labels and legends of a figure stand, as (x0, y0, x1, y1) in pixels."""
    figure.draw_without_rendering()
    found = {}
    for index, axes in enumerate(figure.axes):
        if not axes.get_visible():
            continue
        texts = {"title": axes.title, "x": axes.xaxis.label, "y": axes.yaxis.label}
        found |= {f"{kind} of {index}": text.get_window_extent() for kind, text in texts.items() if text.get_text()}
        letters = [text for text in axes.texts if len(text.get_text()) == 1]
        found |= {f"letter of {index}": text.get_window_extent() for text in letters}
        if axes.get_legend() is not None:
            found[f"legend of {index}"] = axes.get_legend().get_window_extent()
    found |= {
        f"legend {index} of the figure": legend.get_window_extent() for index, legend in enumerate(figure.legends)
    }
    return {name: np.array(box.extents) for name, box in found.items()}


def check_layout(figure: Figure, what: str) -> None:
    """Raises if a title, label or legend is cut off or lies on another."""
    found = boxes(figure)
    width, height = figure.bbox.width, figure.bbox.height
    for name, (x0, y0, x1, y1) in found.items():
        assert x0 >= -2 and y0 >= -2 and x1 <= width + 2 and y1 <= height + 2, f"{what}: {name} is cut off"
    names = list(found)
    for index, one in enumerate(names):
        for other in names[index + 1 :]:
            a, b = found[one], found[other]
            overlap = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
            assert overlap.min() <= 2, f"{what}: {one} lies on {other}"


@pytest.mark.slow
@pytest.mark.parametrize("look", [("slides", None), ("paper", "neurips2024")])
def test_nothing_is_cut_off_or_lies_on_something_else(look: tuple, clipping_store: Store, depth_store: Store) -> None:
    for name, store in (("clipping", clipping_store), ("depth-gain", depth_store)):
        check_layout(kymograph.figure(name, store, *look), f"{name} in {look}")


@pytest.mark.slow
@pytest.mark.parametrize("look", [("paper", None), ("slides", None), ("paper", "icml2024"), ("paper", "neurips2024")])
def test_every_figure_holds_in_every_look(
    look: tuple, clipping_store: Store, depth_store: Store, image_stores: list[Store]
) -> None:
    for store in (clipping_store, depth_store, *image_stores):
        for name in figure_names(store):
            if not name.endswith("-sweep"):
                check_layout(kymograph.figure(name, store, *look), f"{name} in {look}")


@pytest.fixture(scope="module")
def image_stores(tmp_path_factory: pytest.TempPathFactory) -> list[Store]:
    out = tmp_path_factory.mktemp("images")
    small = {"epochs": 1, "width": 16, "depth": 2, "quiet": True, "engine": "serial", "out": out, "seeds": [42, 123]}
    arms = ["resmlp/bp", "resmlp/dfa", "resmlp/*/no_out_ln", "vit/*"]
    return [kymograph.run("snapshot", arms=arms, **small), kymograph.run("calibration", draws=19, **small)]  # type: ignore[arg-type]


def test_too_many_settings_for_a_page_are_told(clipping_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    from kymograph_studies.clipping import figures

    pairs = {f"s{index}": ("extreme/no_clip", "extreme/clip") for index in range(9)}
    monkeypatch.setattr(figures, "_pairs", lambda store: pairs)
    with pytest.raises(KymographError, match=r"fits 3 settings, not 9; choose some with --arms"):
        kymograph.figure("clipping", clipping_store, venue="neurips2024")


def test_the_list_names_every_figure_with_its_study() -> None:
    listed = list_figures()
    for study in list_studies():
        mine = {name: line for owner, name, line in listed if owner == study.name}
        assert set(mine) == set(study.figures()) and all(mine.values())
        for draw in study.figures().values():
            assert isinstance(draw, StudyFigure)
            assert callable(draw.draw)
    code = (
        "import sys; from kymograph.pictures.figures import list_figures; list_figures(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_plain_function_is_told_by_its_docstring() -> None:
    def mine(store: Store) -> None:
        """Draws my own.

        At length.
        """

    assert about(mine) == "Draws my own."
