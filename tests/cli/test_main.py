from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from kymograph.cli.main import main
from kymograph.runs.store import Store

QUICK = ["--n-samples", "60", "--epochs", "1", "--n-rare", "3", "--engine", "serial", "--quiet"]


def call(*words: str) -> int:
    """Runs a command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as exit_:
        main(words)
    return int(exit_.value.code or 0)


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_run_export_and_figure_as_a_newcomer_would(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    runs = str(tmp_path / "runs")
    assert call("run", "clipping", "--seeds", "42", "123", "--out", runs, *QUICK) == 0
    assert "8 runs computed, 0 found, 0 failed" in capsys.readouterr().out
    assert call("run", "clipping", "--seeds", "42", "123", "--out", runs, *QUICK) == 0
    assert "0 runs computed, 8 found, 0 failed" in capsys.readouterr().out
    assert call("export", runs, "--to", "json", "--output", str(tmp_path / "runs.json")) == 0
    assert len(json.loads((tmp_path / "runs.json").read_text())["runs"]) == 8
    assert call("figure", "clipping", "--from", runs) == 0
    for suffix in ("png", "pdf", "svg", "csv"):
        assert (tmp_path / "runs" / "figures" / f"clipping.{suffix}").exists()
    assert len(Store.open(runs)) == 8, "figures beside the runs are not runs"


def test_settings_on_the_command_line_reach_the_runs(tmp_path: Path) -> None:
    runs = str(tmp_path)
    assert (
        call(
            "run",
            "clipping",
            "--n-seeds",
            "2",
            "--arms",
            "extreme/cl*p",
            "--out",
            runs,
            "--lr",
            "0.05",
            *QUICK,
        )
        == 0
    )
    store = Store.open(runs)
    assert store.seeds == (42, 123) and store.arms == ("extreme/clip",)
    assert {run.config["lr"] for run in store} == {0.05} and {run.config["epochs"] for run in store} == {1}


def test_export_to_the_scripts_layout(depth_store: Store, tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    assert call("export", str(depth_store.root), "--to", "script", "--output", str(output), "--seed", "123") == 0
    assert "res_mlp" in json.loads(output.read_text())


def test_where_chooses_among_settings(tmp_path: Path) -> None:
    runs = str(tmp_path / "runs")
    for lr in ("0.1", "0.2"):
        call("run", "clipping", "--seeds", "1", "--arms", "extreme/*clip", "--out", runs, "--lr", lr, *QUICK)
    assert call("figure", "clipping", "--from", runs) == 1
    assert call("figure", "clipping", "--from", runs, "--where", "lr=0.2") == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["rum"], "did you mean 'run'"),
        (["run", "cliping"], "did you mean 'clipping'"),
        (["run", "clipping", "--seeds", "forty"], "a seed must be a whole number, not 'forty'"),
        (["run", "clipping", "--seeds", "-1"], "whole number"),
        (["run", "clipping", "--epochs", "-3"], "epochs must be at least 1, not -3"),
        (["run", "clipping", "--epochs", "many"], "--epochs"),
        (["run", "clipping", "--epoch", "3"], "did you mean '--epochs'"),
        (["run", "clipping", "--arms", "extreme/clipp"], "did you mean 'extreme/clip'"),
        (["run", "depth", "--task", "identty"], "identity"),
        (["run", "clipping", "--n-seeds", "0"], "at least 1"),
        (["run", "clipping", "--engine", "threads"], "serial"),
        (["run", "nowhere.module:Study"], "cannot load the study"),
        (["export", "absent", "--to", "json", "--output", "x.json"], "no directory absent"),
        (["figure", "--from", "absent"], "no directory absent"),
        (["figure", "--venue", "icml2042"], "did you mean 'icml2024'"),
        (["figure", "--style", "slides", "--venue", "icml2024"], "drop the venue or the style 'slides'"),
        (["figure", "--style", "papr"], "paper"),
        (["bench", "cliping"], "no comparison"),
        (["list", "dept"], "did you mean 'depth'"),
        (["run", ":x"], "cannot load the study"),
        (["run", ".:x"], "cannot load the study"),
        (["run", "clipping", "--seeds"], "at least one seed"),
        (["run", "clipping", "--device", "tpu", "--seeds", "1"], "no device 'tpu'"),
        (["run", "clipping", "--data", "learnable"], "is about data"),
    ],
)
def test_a_mistake_gets_one_sentence_and_changes_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture,
    words: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*words) == 1
    captured = capsys.readouterr()
    assert message in captured.err and captured.err.count("\n") == 1 and captured.err.startswith("kymograph: ")
    assert captured.out == "" and list(tmp_path.iterdir()) == []


def test_an_unwritable_directory_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    assert call("run", "clipping", "--seeds", "1", "--out", str(tmp_path / "file" / "runs"), *QUICK) == 1
    assert "cannot create" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "in the way"


@pytest.mark.parametrize("harm", ["cut status", "cut arrays", "newer schema", "no arrays"])
def test_a_damaged_record_stops_the_command_and_stays_as_it_was(
    tmp_path: Path, capsys: pytest.CaptureFixture, harm: str
) -> None:
    runs = tmp_path / "runs"
    command = ("run", "clipping", "--seeds", "1", "--arms", "extreme/clip", "--out", str(runs), *QUICK)
    assert call(*command) == 0
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
    for words in (command, ("export", str(runs), "--to", "csv", "--output", str(tmp_path / "x.csv"))):
        assert call(*words) == 1
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and str(status.parent) in error
    assert snapshot(runs) == before and not (tmp_path / "x.csv").exists()


def test_a_half_written_run_is_computed_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = ("run", "clipping", "--seeds", "1", "--arms", "extreme/clip", "--out", str(runs), *QUICK)
    call(*command)
    (status,) = runs.rglob("status.json")
    arrays = status.with_name("arrays.safetensors")
    whole = arrays.read_bytes()
    status.unlink()
    arrays.write_bytes(whole[:50])
    assert call(*command) == 0
    assert arrays.read_bytes() == whole


def test_help_is_there_for_every_verb(capsys: pytest.CaptureFixture) -> None:
    for words in (["--help"], ["run", "--help"], ["run", "depth", "--help"], ["export", "--help"], ["figure", "--help"],
                  ["bench", "--help"], ["list", "--help"], ["reproduce", "--help"]):  # fmt: skip
        assert call(*words) == 0
        assert len(capsys.readouterr().out) > 80
    assert call() == 2


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    from kymograph.errors import KymographError

    with pytest.raises(KymographError):
        main(["--debug", "run", "cliping"])


@pytest.mark.parametrize("words", [["--help"], ["list"], ["figure", "--list"]])
def test_help_and_list_answer_at_once(words: list[str]) -> None:
    def fastest(command: list[str]) -> float:
        """Returns the least processor time of five tries: what the clock says depends on who else is at work."""
        times = []
        for _ in range(5):
            began = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            ended = resource.getrusage(resource.RUSAGE_CHILDREN)
            times.append(ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime)
        return min(times)

    bare = fastest([sys.executable, "-c", "pass"])
    # torch alone takes more than a second; half of one leaves room for a slow machine.
    assert fastest([sys.executable, "-m", "kymograph", *words]) - bare < 0.5
