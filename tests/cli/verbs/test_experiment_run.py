from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kymograph._runs.store import Store
from tests.cli.command import QUICK, call, write_coin

ONE = ("run", "clipping", "--seeds", "1", "--arms", "extreme/clip", *QUICK, "--dir")


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.science
def test_run_export_and_figure_as_a_newcomer_would(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    runs = str(tmp_path / "runs")
    assert call("run", "clipping", "--seeds", "42", "123", "--dir", runs, *QUICK) == 0
    assert "8 runs computed, 0 found, 0 failed" in capsys.readouterr().out
    assert call("run", "clipping", "--seeds", "42", "123", "--dir", runs, *QUICK) == 0
    assert "0 runs computed, 8 found, 0 failed" in capsys.readouterr().out
    assert call("export", runs, "--to", "json", "--output", str(tmp_path / "runs.json")) == 0
    assert len(json.loads((tmp_path / "runs.json").read_text())["runs"]) == 8
    assert call("figure", "clipping", "--dir", runs) == 0
    for suffix in ("png", "pdf", "svg", "csv"):
        assert (tmp_path / "runs" / "figures" / f"clipping.{suffix}").exists()
    assert len(Store.open(runs)) == 8, "figures beside the runs are not runs"


@pytest.mark.science
def test_settings_on_the_command_line_reach_the_runs(tmp_path: Path) -> None:
    words = ("run", "clipping", "--n-seeds", "2", "--arms", "extreme/cl*p", "--lr", "0.05", "--dir", str(tmp_path))
    assert call(*words, *QUICK) == 0
    store = Store.open(tmp_path)
    assert store.seeds == (42, 123) and store.arms == ("extreme/clip",)
    assert {run.config["lr"] for run in store} == {0.05} and {run.config["epochs"] for run in store} == {1}


@pytest.mark.science
@pytest.mark.parametrize("words", [
    ONE,
    ("report", "runs", "-o"),
    ("bundle", "runs", "-o"),
    ("export", "runs", "--to", "json", "--output"),
    ("judge", "runs", "--json"),
    ("calibrate", "x.pt", "-o"),
], ids=lambda words: words[0])  # fmt: skip
def test_an_output_without_a_name_is_one_sentence_and_writes_nothing(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    """It used to be the current directory."""
    monkeypatch.chdir(tmp_path)
    assert call(*words, "") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and f"{words[-1]} has an empty value" in error
    assert list(tmp_path.iterdir()) == []


@pytest.mark.science
def test_an_unwritable_directory_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    assert call(*ONE, str(tmp_path / "file" / "runs")) == 1
    assert "cannot create" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.science
@pytest.mark.parametrize("harm", ["cut status", "cut arrays", "newer schema", "no arrays"])
def test_a_damaged_record_stops_the_command_and_stays_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture, harm: str
) -> None:
    runs = tmp_path / "runs"
    assert call(*ONE, str(runs)) == 0
    (status,) = runs.rglob("status.json")
    arrays = status.with_name("arrays.safetensors")
    if harm == "cut status":
        status.write_bytes(status.read_bytes()[:40])
    elif harm == "cut arrays":
        arrays.write_bytes(arrays.read_bytes()[:100])
    elif harm == "newer schema":
        status.write_text(status.read_text().replace('"schema": 1', '"schema": 99'))
    else:
        arrays.unlink()
    before = snapshot(runs)
    capsys.readouterr()
    for words in ((*ONE, str(runs)), ("export", str(runs), "--to", "csv", "--output", str(tmp_path / "x.csv"))):
        assert call(*words) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and str(status.parent) in error
    assert snapshot(runs) == before and not (tmp_path / "x.csv").exists()


@pytest.mark.science
def test_a_half_written_run_is_computed_again(tmp_path: Path) -> None:
    assert call(*ONE, str(tmp_path)) == 0
    (status,) = tmp_path.rglob("status.json")
    arrays = status.with_name("arrays.safetensors")
    whole = arrays.read_bytes()
    status.unlink()
    arrays.write_bytes(whole[:50])
    assert call(*ONE, str(tmp_path)) == 0
    assert arrays.read_bytes() == whole


@pytest.mark.science
def test_the_settings_of_a_study_are_in_its_help(capsys: pytest.CaptureFixture) -> None:
    assert call("run", "depth", "--help") == 0
    text = capsys.readouterr().out
    for words in ("--task", "--layers", "--seeds", "--engine", "--data-dir", "study options"):
        assert words in text
    assert call("run") == 2 and "clipping, depth, snapshot" in capsys.readouterr().out


def test_a_user_defined_study_runs_from_its_file(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write_coin(tmp_path)
    words = ("--seeds", "1", "2", "--dir", str(tmp_path / "runs"), "--engine", "serial", "--tosses", "3", "--quiet")
    assert call("run", str(path), *words) == 0
    assert "coin: 2 runs computed, 0 found, 0 failed" in capsys.readouterr().out
    assert call("run", f"{path}:Coin", *words) == 0
    assert "coin: 0 runs computed, 2 found, 0 failed" in capsys.readouterr().out
    assert {run.config["tosses"] for run in Store.open(tmp_path / "runs")} == {3}


@pytest.mark.science
def test_the_data_directory_is_an_argument_and_not_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.delenv("KYMOGRAPH_DATA", raising=False)
    before = dict(os.environ)
    absent, out = str(tmp_path / "absent"), str(tmp_path / "runs")
    words = ("snapshot", "--seeds", "1", "--data", "cifar10", "--dir", out, "--data-dir", absent)
    assert call("run", *words) == 1
    assert absent in capsys.readouterr().err and not Path(out).exists()
    assert dict(os.environ) == before


def test_settings_come_from_a_file_and_options_win(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path, file, out = write_coin(tmp_path), tmp_path / "coin.toml", tmp_path / "runs"
    file.write_text('arms = ["bent"]\nn_seeds = 2\n[grid]\ntosses = [2, 3]\n')
    words = ("run", str(path), "--config", str(file), "--dir", str(out), "--engine", "serial", "--quiet")
    assert call(*words) == 0
    store = Store.open(out)
    assert {(run.arm, run.seed, run.config["tosses"]) for run in store} == {
        ("bent", seed, tosses) for seed in (42, 123) for tosses in (2, 3)
    }
    assert call(*words, "--tosses", "5", "--seeds", "7", "--arms", "fair") == 0
    assert [(run.arm, run.config["tosses"]) for run in Store.open(out) if run.seed == 7] == [("fair", 5)]
    file.write_text("toses = 3\n")
    capsys.readouterr()
    assert call(*words) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "coin.toml: coin has no setting 'toses'; did you mean 'tosses'?" in error


def test_a_setting_with_the_name_of_an_option_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write_coin(tmp_path)
    path.write_text(path.read_text().replace("tosses: int", "workers: int").replace("config.tosses", "config.workers"))
    assert call("run", str(path), "--quiet") == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "the setting 'workers' has the name of an option; rename the setting" in error


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_debug_prints_the_traceback_of_a_failing_run(
    tmp_path: Path, engine: str, capsys: pytest.CaptureFixture
) -> None:
    path = write_coin(tmp_path)
    path.write_text(
        path.read_text().replace("step = np.arange", "raise ValueError('no coin')\n        step = np.arange")
    )
    words = ("run", str(path), "--seeds", "1", "2", "--dir", str(tmp_path / "runs"), "--engine", engine, "--quiet")
    assert call(*words) == 1
    error = capsys.readouterr().err
    assert "failed: fair, seed 1 and 1 other run: ValueError: no coin" in error
    assert "--debug prints" in error and "File" not in error
    for where in (("--debug", *words), (*words, "--debug")):
        assert call(*where) == 1
        error = capsys.readouterr().err
        assert "Traceback (most recent call last)" in error and "coin_study.py" in error
        assert "raise ValueError('no coin')" in error


def test_a_seed_that_changes_nothing_is_pointed_out_once(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write_coin(tmp_path)
    words = ("run", str(path), "--seeds", "1", "2", "--dir", str(tmp_path / "runs"), "--engine", "serial")
    assert call(*words) == 0
    error = capsys.readouterr().err
    assert error.count("heads is 0.5 in all 2 seeds of fair") == 1 and "does not seem to use its seed" in error
    assert call(*words) == 0
    assert "in all 2 seeds" not in capsys.readouterr().err, "nothing was computed"
    assert call(*words[:-4], "--dir", str(tmp_path / "other"), "--engine", "serial", "--quiet") == 0
    assert capsys.readouterr().err == ""


def test_the_note_on_global_generators_reaches_the_user(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    example = Path(__file__).parents[2] / "studies" / "warmup_example.py"
    words = ("run", str(example), "--seeds", "1", "2", "--dir", str(tmp_path / "runs"), "--engine", "serial")
    assert call(*words) == 0
    note = "random numbers came from the global generators, which were set by the run's seed (all 4 runs)"
    error = capsys.readouterr().err
    assert error.count(note) == 1 and "in all 2 seeds" not in error
    assert call("show", "warmup/warmup/s1", "--dir", str(tmp_path / "runs")) == 0
    assert "which were set by the run's seed" in capsys.readouterr().out
    assert call("report", str(tmp_path / "runs"), "-o", str(tmp_path / "report.html")) == 0
    page = (tmp_path / "report.html").read_text()
    assert "Note: random numbers came from the global generators" in page
