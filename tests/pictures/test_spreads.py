from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kymograph.errors import KymographError
from kymograph.pictures.canvas import LabFigure
from kymograph.pictures.curves import name_band, seed_curves
from kymograph.pictures.figures import figure, figure_from_files
from kymograph.pictures.scales import INTERVAL, SD, SPREADS, choose_spread
from kymograph.runs.store import Store
from kymograph.statistics.intervals import t_interval
from tests.cli.command import call

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


def test_missing_values_and_zeros_count_as_they_are() -> None:
    values = np.array([[1.0, np.nan, 0.0], [3.0, np.nan, 4.0]])
    mean, low, high = SD.of(values, True)
    np.testing.assert_allclose(mean, [2.0, np.nan, 2.0])
    np.testing.assert_allclose((low, high), [[1.0, np.nan, 0.0], [3.0, np.nan, 4.0]])
    assert SD.label(False) == SD.label(True) and INTERVAL.label(False) == "95 % interval of the mean (Student's t)"


def test_a_panel_without_a_band_gets_no_name_for_it() -> None:
    drawn = LabFigure()
    one, two = drawn.subplots(1, 2)
    for axes, seeds in ((one, SEEDS[:1]), (two, SEEDS)):
        values = np.ones((len(seeds), 2))
        seed_curves(drawn, axes, "panel", "curve", np.arange(2), values, seeds, "black")
        name_band(axes, SD, log=False)
    assert named_bands(drawn) == [[], [SD.label(False)]]


def test_a_spread_is_chosen_by_name() -> None:
    assert choose_spread(None) is INTERVAL and list(SPREADS) == ["interval", "sd"]
    with pytest.raises(KymographError, match=r"there is no spread 'std'; did you mean 'sd'\?"):
        choose_spread("std")


def test_a_figure_that_leaves_no_choice_says_so(depth_store: Store) -> None:
    for name in ("depth-loss", "depth-curves"):
        with pytest.raises(KymographError, match=f"the spread that {name} shows cannot be chosen; drop --spread"):
            figure(name, depth_store, spread="sd")


def test_the_command_draws_what_is_asked_for(
    logs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    drawn = []
    monkeypatch.setattr("kymograph.pictures.saving.save_figure", lambda figure, *_, **__: drawn.append(figure) or [])
    words = ("figure", "snapshot-resmlp", "--from", *map(str, logs), "--spread")
    assert call(*words, "sd") == 0
    assert named_bands(drawn[0])[3] == [SD.label(True)]
    assert call(*words, "std") == 2 and "there is no spread 'std'; did you mean 'sd'?" in capsys.readouterr().err
