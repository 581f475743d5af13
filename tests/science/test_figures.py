"""The built-in studies' figures, in every style."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser

import kymograph
from kymograph._errors import KymographError
from kymograph._pictures.canvas import LabFigure
from kymograph._pictures.figures import figure, figure_from_files, figure_names, list_figures
from kymograph._pictures.kymograph import kymograph as draw_kymograph
from kymograph._pictures.saving import save_figure, save_stale
from kymograph._pictures.scales import SD
from kymograph._pictures.styles import (
    COLOURS,
    DASHES,
    STYLES,
    arm_styles,
    drawing_in,
    mathtext,
)
from kymograph._runs.store import Store
from kymograph._statistics.intervals import t_interval
from kymograph._studies.loading import built_in_studies, list_studies, load_study
from kymograph._studies.study import StudyFigure
from tests.cli.command import call


@pytest.mark.parametrize("seeds", [[42], pytest.param([42, 123, 456], marks=pytest.mark.slow)])
@pytest.mark.parametrize("fixture", ["clipping_store", "depth_store"])
def test_every_figure_is_drawn_with_labels_n_and_data(
    request: pytest.FixtureRequest, tmp_path: Path, fixture: str, seeds: list[int]
) -> None:
    store: Store = request.getfixturevalue(fixture).select(seeds=seeds)
    names = [name for name in figure_names(store) if not name.endswith("-sweep")]
    assert len(names) >= 2
    for name in names:
        figure = kymograph.figure(name, store)
        texts = [t.get_text() for axes in figure.axes for t in (*axes.get_legend_handles_labels()[1:], axes.title)
                 if hasattr(t, "get_text")]  # fmt: skip
        labels = [label for axes in figure.axes for label in axes.get_legend_handles_labels()[1]]
        assert any(f"n = {len(seeds)}" in text for text in [*texts, *labels]), name
        paths = save_figure(figure, tmp_path, name, ("png",))  # the other formats have tests of their own
        assert [path.suffix for path in paths] == [".png", ".csv"]
        assert all(path.stat().st_size > 500 for path in paths)
        with (tmp_path / f"{name}.csv").open() as file:
            least = 0 if name.endswith("-differences") else 10  # a row per claim and seed
            assert len(list(csv.DictReader(file))) > least


@pytest.mark.parametrize(
    ("study", "arms", "fields"),
    [
        ("clipping", ["extreme/*", "moderate/*", "imbalance/*"], {"n_samples": 80, "probe_every": 20}),
        ("depth", ["layers/5/*", "layers/10/*", "width/16/*"], {"steps": 4, "n_samples": 32, "batch_size": 8}),
    ],
)
def test_the_sweeps_are_drawn_if_they_were_run(
    tmp_path: Path, request: pytest.FixtureRequest, study: str, arms: list[str], fields: dict
) -> None:
    with pytest.raises(KymographError, match="needs the sweeps"):
        kymograph.figure(f"{study}-sweep", request.getfixturevalue(f"{study}_store"))
    if study == "clipping":
        fields = {**fields, "epochs": 1}
        arms = [arm for arm in arms if not arm.startswith("imbalance")]
        kymograph.run(study, seeds=[1, 2], arms=["imbalance/1/*"], out=tmp_path, quiet=True, engine="serial", epochs=1)
        fields["n_rare"] = 5
    kymograph.run(study, seeds=[1, 2], arms=arms, out=tmp_path, quiet=True, engine="serial", **fields)
    figure = kymograph.figure(f"{study}-sweep", Store.open(tmp_path))
    assert len(figure.rows) > 20 and len(figure.legends) == 1, "one legend for all panels"  # type: ignore[attr-defined]


def test_a_figures_data_are_the_stores_numbers(depth_store: Store, tmp_path: Path) -> None:
    save_figure(kymograph.figure("depth-loss", depth_store), tmp_path, "loss")
    with (tmp_path / "loss.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["curve"] == "plain" and row["seed"] == "123"]
    expected = depth_store.series("loss").sel(arm="plain", seed=123).values
    np.testing.assert_allclose([float(row["value"]) for row in rows], expected, rtol=1e-6)


@pytest.mark.slow
def test_figures_have_the_same_bytes_every_time(depth_store: Store, tmp_path: Path) -> None:
    for name in ("a", "b"):
        save_figure(kymograph.figure("depth-kymograph", depth_store), tmp_path / name, "k")
    for suffix in ("png", "pdf", "svg", "csv"):
        assert (tmp_path / "a" / f"k.{suffix}").read_bytes() == (tmp_path / "b" / f"k.{suffix}").read_bytes()


def test_a_kymograph_has_one_colour_scale_and_depth_runs_down(depth_store: Store) -> None:
    figure = kymograph.figure("depth-kymograph", depth_store)
    meshes = [m for axes in figure.axes for m in axes.collections if hasattr(m, "norm") and m.norm.vmin]
    assert len({(mesh.norm.vmin, mesh.norm.vmax) for mesh in meshes if mesh.get_array() is not None}) == 1
    panel = figure.axes[0]
    assert panel.get_ylim()[0] > panel.get_ylim()[1]


def test_figures_are_not_drawn_again_unless_runs_or_code_change(depth_store: Store, tmp_path: Path) -> None:
    draws = {"depth-loss": load_study("depth").figures()["depth-loss"]}
    assert save_stale(depth_store, draws, tmp_path, "code")[1] == 0
    assert save_stale(depth_store, draws, tmp_path, "code") == ([], 1)
    assert save_stale(depth_store, draws, tmp_path, "other code")[1] == 0
    assert save_stale(depth_store.select(seeds=[42]), draws, tmp_path, "other code")[1] == 0


def test_a_figure_whose_drawing_was_killed_is_not_taken_for_the_one_before(
    depth_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A PNG of other runs next to a PDF of these, with a stamp that says that both are of these."""
    draws = {"depth-loss": load_study("depth").figures()["depth-loss"]}
    save_stale(depth_store, draws, tmp_path, "code", ("png", "pdf"))
    before = (tmp_path / "depth-loss.png").read_bytes()

    def killed(*_: object) -> None:
        (tmp_path / "depth-loss.png").write_bytes(b"that of other runs")
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("kymograph._pictures.saving.save_figure", killed)
        with pytest.raises(SystemExit):
            save_stale(depth_store.select(seeds=[42]), draws, tmp_path, "code", ("png", "pdf"))
    assert save_stale(depth_store, draws, tmp_path, "code", ("png", "pdf"))[1] == 0
    assert (tmp_path / "depth-loss.png").read_bytes() == before


def test_figures_show_themselves_in_notebooks_and_leave_settings_alone(depth_store: Store) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    assert kymograph.figure("depth-loss", depth_store)._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    assert dict(matplotlib.rcParams) == before


def test_a_figure_that_cannot_be_drawn_says_what_is_missing(clipping_store: Store) -> None:
    with pytest.raises(KymographError, match="no figure 'clipping-spike'; did you mean 'clipping-spikes'"):
        kymograph.figure("clipping-spike", clipping_store)
    with pytest.raises(KymographError, match="needs an arm"):
        kymograph.figure("clipping", clipping_store.select(arms=["extreme/clip"]))


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
from kymograph._pictures.saving import save_figure
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
@pytest.mark.parametrize("style", [("slides", None), ("paper", "neurips2024")])
def test_nothing_is_cut_off_or_lies_on_something_else(style: tuple, clipping_store: Store, depth_store: Store) -> None:
    for name, store in (("clipping", clipping_store), ("depth-gain", depth_store)):
        check_layout(kymograph.figure(name, store, *style), f"{name} in {style}")


@pytest.mark.slow
@pytest.mark.parametrize("style", [("paper", None), ("slides", None), ("paper", "icml2024"), ("paper", "neurips2024")])
def test_every_figure_holds_in_every_look(
    style: tuple, clipping_store: Store, depth_store: Store, image_stores: list[Store]
) -> None:
    for store in (clipping_store, depth_store, *image_stores):
        for name in figure_names(store):
            if not name.endswith("-sweep"):
                check_layout(kymograph.figure(name, store, *style), f"{name} in {style}")


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
        "import sys; from kymograph._pictures.figures import list_figures; list_figures(); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_arm_of_every_study_has_a_look_of_its_own() -> None:
    """One colour used to mean three arms. Where there are more arms than styles, those of one chart differ."""
    for study in built_in_studies():
        styles = arm_styles(study.declaration())
        chart = {arm.name: arm.panel if len(styles) > len(COLOURS) * len(DASHES) else "" for arm in study.arms()}
        drawn = {(style.colour, style.dash, chart[arm]) for arm, style in styles.items()}
        assert len(drawn) == len(styles), study.name
        assert len({style.label for style in styles.values()}) == len(styles), study.name
        assert not any("_" in style.label or "/" in style.label for style in styles.values()), study.name


def test_default_arms_of_all_studies_but_one_rules_variants_look_different_on_one_page() -> None:
    seen: dict[tuple[int, int], str] = {}
    for study in built_in_studies():
        declaration = study.declaration()
        styles = arm_styles(declaration)
        for arm in declaration.arms:
            if arm.default and study.name in ("clipping", "depth", "snapshot"):
                pair = styles[arm.name].colour, styles[arm.name].dash
                assert pair not in seen, f"{study.name} {arm.name} looks like {seen.get(pair)}"
                seen[pair] = f"{study.name} {arm.name}"


def test_bp_and_dfa_have_one_colour_each_in_every_study() -> None:
    colours: dict[str, set[int]] = {"BP": set(), "DFA": set()}
    for study in built_in_studies():
        styles = arm_styles(study.declaration())
        for style in styles.values():
            if style.label in ("BP", "DFA", "BP, no block", "DFA, no block"):
                colours[style.label.split(",")[0]].add(style.colour)
    assert colours == {"BP": {0}, "DFA": {1}}


def test_what_the_built_in_studies_declare_can_be_set() -> None:
    for study in built_in_studies():
        declared = study.declaration()
        tables = [text for columns in declared.tables.values() for text in columns.values()]
        for text in (*declared.headlines.values(), *(one.unit for one in declared.series), *tables):
            assert "||" not in text, text
            MathTextParser("path").parse(mathtext(text))


SEEDS = (42, 123, 456)


@pytest.fixture
def logs(tmp_path: Path) -> tuple[Path, Path]:
    """Logs as the figure script reads them: one seed with terminal LayerNorm, three without."""
    with_norm, without = tmp_path / "snapshot_evolution_v2", tmp_path / "snapshot_no_outln_v1"
    for directory, seeds in ((with_norm, SEEDS[:1]), (without, SEEDS)):
        directory.mkdir()
        for index, seed in enumerate(seeds):
            entries = [
                {"hidden_norms": [1.0, 2.0, (1.0 + n) ** (index + 1)], "epoch": n,
                 "bp_grad_norms_per_sample_med": [1.0, 1.0, 10.0 ** -(n * index)]}
                for n in range(3)
            ]  # fmt: skip
            content = {"config": {"seed": seed}, "bp_log": entries, "dfa_log": entries}
            (directory / f"snapshot_s{seed}.json").write_text(json.dumps(content))
    return with_norm, without


def named_bands(drawn: LabFigure) -> list[list[str]]:
    """Returns, by panel, what its legend says apart from its curves."""
    return [[name for name in axes.get_legend_handles_labels()[1] if "n = " not in name] for axes in drawn.axes]


def rows(drawn: LabFigure, panel: str, line: str) -> list[float]:
    return [value for where, curve, key, _, value in drawn.rows if (where, curve, key) == (panel, "DFA", line)]


@pytest.mark.parametrize(
    ("style", "spread", "name"),
    [
        ("notebook", None, "95 % interval of the geometric mean (Student's t)"),
        ("paper", "interval", "95 % interval of the geometric mean (Student's t)"),
        ("slides", "sd", "mean ± standard deviation (denominator n)"),
    ],
)
def test_the_figure_of_the_script_names_its_spread_where_there_is_one(
    logs: tuple[Path, Path], style: str, spread: str | None, name: str
) -> None:
    drawn = figure_from_files("snapshot-resmlp", [str(path) for path in logs], style=style, spread=spread)
    assert isinstance(drawn, LabFigure)
    assert named_bands(drawn) == [[], [], [name], [name]], "one seed has no spread"
    (legend,) = drawn.legends
    texts = [text.get_text().replace("\n", " ") for text in legend.get_texts()]
    assert texts == [f"{arm} (a, b: n = 1; c, d: n = 3)" for arm in ("BP", "DFA")] + [name]


def test_the_standard_deviation_is_the_scripts(logs: tuple[Path, Path]) -> None:
    drawn = figure_from_files("snapshot-resmlp", [str(path) for path in logs], spread="sd")
    assert isinstance(drawn, LabFigure)
    values = np.array([[(1.0 + n) ** (index + 1) for n in range(3)] for index in range(3)])
    panel = "ResMLP without terminal LayerNorm: h_L"
    mean, sd = np.mean(values, 0), np.std(values, 0)  # as the script computes them
    np.testing.assert_allclose(rows(drawn, panel, "mean"), mean)
    np.testing.assert_allclose(rows(drawn, panel, "low"), mean - sd)
    np.testing.assert_allclose(rows(drawn, panel, "high"), mean + sd)


def test_the_interval_is_students_on_the_logarithm(logs: tuple[Path, Path]) -> None:
    drawn = figure_from_files("snapshot-resmlp", [str(logs[1])])
    assert isinstance(drawn, LabFigure)
    low, high = t_interval(np.log([3.0, 9.0, 27.0]))
    panel = "ResMLP without terminal LayerNorm: h_L"
    assert rows(drawn, panel, "mean")[-1] == pytest.approx(9.0)
    assert (rows(drawn, panel, "low")[-1], rows(drawn, panel, "high")[-1]) == pytest.approx((np.exp(low), np.exp(high)))


def test_a_figure_that_leaves_no_choice_says_so(depth_store: Store) -> None:
    for name in ("depth-loss", "depth-curves"):
        with pytest.raises(KymographError, match=f"the spread that {name} shows cannot be chosen; drop --spread"):
            figure(name, depth_store, spread="sd")


def test_the_command_draws_what_is_asked_for(
    logs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    drawn = []
    monkeypatch.setattr("kymograph._pictures.saving.save_figure", lambda figure, *_, **__: drawn.append(figure) or [])
    words = ("figure", "snapshot-resmlp", "--dir", *map(str, logs), "--spread")
    assert call(*words, "sd") == 0
    assert named_bands(drawn[0])[3] == [SD.label(True)]
    assert call(*words, "std") == 2 and "there is no spread 'std'; did you mean 'sd'?" in capsys.readouterr().err
