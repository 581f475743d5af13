from __future__ import annotations

from pathlib import Path

import pytest

from kymograph.runs.store import Store
from kymograph.studies.loading import load_study
from tests.cli.command import call
from tests.studies.varying import REFERENCE

SERIAL = ("--engine", "serial", "--quiet")


def test_the_command_runs_every_source_and_prints_the_table(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("variance", REFERENCE, "--n-seeds", "10", "--arms", "learned", "--epochs", "3", "--out", str(tmp_path))
    assert call(*words, *SERIAL) == 0
    text = capsys.readouterr().out
    assert "varying: 40 runs computed, 0 found, 0 failed" in text and "ln size: initialisation varies it most" in text
    assert {run.config["epochs"] for run in Store.open(tmp_path)} == {3}
    assert call(*words, "--sources", "order", *SERIAL) == 0
    text = capsys.readouterr().out
    assert "0 runs computed, 20 found" in text and "feedback " not in text.split("sd over runs")[0]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("depth",), "the sources of variance of depth cannot be separated"),
        ((REFERENCE, "--vary", "order"), "every source is varied in turn"),
        ((REFERENCE, "--sources"), "--sources needs at least one source"),
        ((REFERENCE, "--n-seeds", "1"), "at least two seeds"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture, words: tuple[str, ...], error: str
) -> None:
    assert call("variance", *words, "--out", str(tmp_path / "runs")) == (1 if words == ("depth",) else 2)
    printed = capsys.readouterr().err
    assert error in printed and printed.count("\n") == 1 and not (tmp_path / "runs").exists()


def test_help_says_what_it_does_and_lists_the_settings(capsys: pytest.CaptureFixture) -> None:
    assert call("variance") == 2 and "one at a time" in capsys.readouterr().out
    assert call("variance", "snapshot", "--help") == 0
    text = capsys.readouterr().out
    assert "--sources" in text and "--epochs" in text


def test_failed_runs_are_counted_and_the_exit_code_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(spec: object) -> None:
        raise RuntimeError("no")

    load_study(REFERENCE)  # which imports the module anew the first time, and would undo what is patched below
    monkeypatch.setattr("tests.studies.varying._drawn", fails)
    assert call("variance", REFERENCE, "--n-seeds", "2", "--arms", "learned", "--out", str(tmp_path), *SERIAL) == 1
    captured = capsys.readouterr()
    assert "0 runs computed, 0 found, 8 failed" in captured.out and "No two sources" in captured.out
    assert "failed: learned, seed 42 and 7 other runs: RuntimeError: no" in captured.err
