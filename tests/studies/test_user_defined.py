"""A study in a stranger's file is worth as much as a built-in one, everywhere."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import kymograph
from kymograph._cli.main import main
from kymograph._errors import KymographError
from kymograph._runs.declaration import read_declaration
from kymograph._runs.directory import Directory
from tests.studies.user_study import write_study

SEEDS = ["--seeds", *map(str, range(1, 11))]


def in_a_process(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    # The current directory is not on the path of a command that is installed, and must not be needed.
    code = "import sys; sys.path[:] = [p for p in sys.path if p]; from kymograph._cli.main import main; main()"
    environment = {**os.environ, "PYTHONPATH": str(Path(kymograph.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    stdout: str
    stderr: str
    returncode: int


def command(*words: str, cwd: Path, check: bool = True) -> Done:
    """Does what a command does, in this process."""
    out, error = io.StringIO(), io.StringIO()
    path = list(sys.path)
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            main(words)
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        finally:
            sys.path[:] = path
    assert not check or code == 0, error.getvalue()
    return Done(out.getvalue(), error.getvalue(), code)


@pytest.fixture(autouse=True)
def _forget_the_study() -> Iterator[None]:
    """Imports the study anew in every test, for each has a directory of its own."""
    yield
    for name in ("decay_study", "local_helper", "empty", "broken", "taken"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the study's file and its runs."""
    directory = tmp_path_factory.mktemp("user")
    write_study(directory)
    done = in_a_process("run", "decay_study.py", *SEEDS, "--dir", "runs", "--workers", "1", cwd=directory)
    assert "decay: 20 runs computed, 0 found, 0 failed" in done.stdout and "final level" in done.stdout
    return directory


def test_list_knows_it_by_file_and_by_module(workspace: Path) -> None:
    for reference in ("decay_study.py", "decay_study.py:Decay", "decay_study:Decay"):
        shown = command("list", reference, cwd=workspace).stdout
        assert "Does a decay end lower than none?" in shown and "loses much" in shown


def test_nothing_is_written_next_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading it used to leave a __pycache__ in a directory that the command was not given."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    write_study(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    command("studies", "decay_study.py", cwd=tmp_path)
    assert sorted(tmp_path.rglob("*")) == before and not sys.dont_write_bytecode


def test_running_again_by_another_reference_computes_nothing(workspace: Path) -> None:
    for reference in ("decay_study.py:Decay", "decay_study:Decay", str(workspace / "decay_study.py")):
        done = command("run", reference, *SEEDS, "--dir", "runs", "--quiet", cwd=workspace)
        assert "0 runs computed, 20 found" in done.stdout


def test_what_it_declares_is_stored_beside_its_runs(workspace: Path) -> None:
    declared = read_declaration(workspace / "runs" / "decay")
    assert declared is not None
    assert (declared.question, declared.time) == ("Does a decay end lower than none?", "second")
    assert declared.headlines == {"final": "final level"}
    assert [arm.treatment for arm in declared.arms] == [{"rate": 0.1}, {"rate": 0.9}]
    assert declared.source is not None and len(declared.source) == 16
    assert {run.spec.source for run in kymograph.Store.open(workspace / "runs")} == {declared.source}


@pytest.mark.slow
def test_it_is_judged_drawn_reported_watched_and_exported_without_its_code(workspace: Path, tmp_path: Path) -> None:
    runs = str(workspace / "runs")
    verdicts = json.loads(_judged(runs, tmp_path))
    assert [row["verdict"] for row in verdicts] == ["SUPPORTED"]
    assert verdicts[0]["registration"] == "registered" and verdicts[0]["settings"] == {"steps": 5}
    command("figure", "--dir", runs, "-o", str(tmp_path / "figures"), cwd=tmp_path)
    assert {path.stem for path in (tmp_path / "figures").glob("*.png")} >= {"decay-curves", "decay-kymograph"}
    command("report", runs, "-o", str(tmp_path / "report.html"), cwd=tmp_path)
    page = (tmp_path / "report.html").read_text()
    for words in (
        "Does a decay end lower than none?",
        "loses much",
        "final level",
        "The level",
        "The profile",
        "second",
    ):
        assert words in page, words
    assert "final level" in command("watch", runs, "--once", cwd=tmp_path).stdout
    command("export", runs, "--to", "json", "--output", str(tmp_path / "runs.json"), cwd=tmp_path)
    assert len(json.loads((tmp_path / "runs.json").read_text())["runs"]) == 20


def _judged(runs: str, out: Path) -> str:
    command("judge", runs, "--json", str(out / "verdicts.json"), cwd=out)
    return (out / "verdicts.json").read_text()


@pytest.mark.slow
def test_its_own_figures_are_drawn_when_the_user_names_its_code(workspace: Path, tmp_path: Path) -> None:
    words = [
        "figure",
        "--dir",
        str(workspace / "runs"),
        "--study",
        str(workspace / "decay_study.py"),
        "-o",
        str(tmp_path),
    ]
    command(*words, cwd=workspace)
    assert (tmp_path / "decay-own.png").exists()


@pytest.mark.slow
def test_stored_files_import_nothing(workspace: Path, tmp_path: Path) -> None:
    """The study's directory is importable here, and still no command imports the module that stored runs come from."""
    (workspace / "decay_study.py").rename(tmp_path / "kept.py")
    (workspace / "decay_study.py").write_text("raise SystemExit('imported')")
    try:
        for words in (
            ["judge", "runs"],
            ["report", "runs", "-o", str(tmp_path / "r.html")],
            ["watch", "runs", "--once"],
        ):
            in_a_process(*words, cwd=workspace)
    finally:
        (tmp_path / "kept.py").replace(workspace / "decay_study.py")


def test_pairing_is_checked_for_it_too(tmp_path: Path) -> None:
    """The check that arms differ in nothing but their treatment was off for every user-defined study."""
    write_study(tmp_path)
    command("run", "decay_study.py", *SEEDS, "--arms", "slow", "--workers", "1", "--steps", "5", cwd=tmp_path)
    command("run", "decay_study.py", *SEEDS, "--arms", "fast", "--workers", "1", "--steps", "6", cwd=tmp_path)
    (verdict,) = kymograph.judge(tmp_path / "runs")
    assert verdict.outcome == "INVALID" and "the arms differ in steps" in verdict.reason


@pytest.mark.slow
@pytest.mark.parametrize("edited", ["decay_study.py", "local_helper.py"])
def test_after_an_edit_its_runs_are_computed_again_and_the_old_ones_are_superseded(tmp_path: Path, edited: str) -> None:
    """`run` used to report "0 computed, 16 found" after `train` had been edited."""
    write_study(tmp_path)
    words = ["run", "decay_study.py", *SEEDS, "--workers", "1"]
    command(*words, cwd=tmp_path)
    before = (tmp_path / edited).read_text()
    (tmp_path / edited).write_text(before + "\nEDITED = True\n")
    done = command(*words, cwd=tmp_path)
    assert "20 runs computed, 0 found" in done.stdout
    assert "the code of decay has changed" in done.stderr and "superseded" in done.stderr
    runs = tmp_path / "runs"
    (verdict,) = kymograph.judge(runs)
    assert verdict.outcome == "SUPPORTED" and verdict.n == 10, verdict.reason
    (note,) = verdict.notes
    assert note.startswith("20 runs of the study's earlier code (source ") and note.endswith("superseded and not used")
    store = kymograph.Store.open(runs)
    assert len(store) == 40 and len(store.current()) == 20
    command("figure", "decay-curves", "--dir", "runs", cwd=tmp_path)
    command("report", "runs", cwd=tmp_path)
    (tmp_path / edited).write_text(before)
    again = command(*words, cwd=tmp_path)
    assert "0 runs computed, 20 found" in again.stdout, "the earlier code finds its runs again"
    assert "its earlier runs are current again" in again.stderr
    assert kymograph.judge(runs)[0].n == 10


def test_superseded_plans_are_not_missing(tmp_path: Path) -> None:
    write_study(tmp_path)
    command("run", "decay_study.py", "--seeds", "1", "2", "--workers", "1", cwd=tmp_path)
    (tmp_path / "local_helper.py").write_text("SCALE = 2.0\n")
    command("run", "decay_study.py", "--seeds", "1", "2", "--workers", "1", cwd=tmp_path)
    archive = Directory(tmp_path / "runs")
    for run in archive.store:
        if run.spec.source != archive.declarations["decay"].source:
            (run.directory / "status.json").unlink()  # the old code's runs are gone; the plan still lists them
    (verdict,) = kymograph.judge(tmp_path / "runs")
    assert "missing" not in verdict.reason and "several" not in verdict.reason, verdict.reason


@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_every_engine_loads_it_from_its_file(tmp_path: Path, engine: str) -> None:
    write_study(tmp_path)
    words = ["run", "decay_study.py", "--seeds", "1", "2", "--engine", engine, "--workers", "2", "--quiet"]
    assert "4 runs computed" in command(*words, cwd=tmp_path).stdout


@pytest.mark.science
def test_references_that_name_no_study_are_one_sentence(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "taken.py").write_text(path.read_text().replace('name = "decay"', 'name = "depth"'))
    for reference, message in (
        ("absent.py", "there is no file absent.py"),
        ("empty.py", "defines no study"),
        ("broken.py", "division by zero"),
        ("taken.py", "calls itself 'depth', which is taken"),
        ("decay_study.py:Absent", "has no 'Absent'"),
        ("dept", "did you mean 'depth'"),
    ):
        done = command("run", reference, cwd=tmp_path, check=False)
        assert done.returncode in (1, 2) and message in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1
    with pytest.raises(KymographError, match="no study"):
        kymograph.load_study("nothing")


def test_a_claim_on_superseded_runs_is_invalid_and_does_not_vanish(tmp_path: Path) -> None:
    """After an edit and a partial rerun the claim used to disappear without a word."""
    write_study(tmp_path)
    command("run", "decay_study.py", *SEEDS, "--workers", "1", cwd=tmp_path)
    (tmp_path / "local_helper.py").write_text("SCALE = 2.0\n")
    command("run", "decay_study.py", *SEEDS, "--arms", "slow", "--workers", "1", cwd=tmp_path)
    (verdict,) = kymograph.judge(tmp_path / "runs")
    assert verdict.outcome == "INVALID" and "10 runs of fast are superseded; run the study again" in verdict.reason
    assert any("earlier code (source" in note for note in verdict.notes)


def test_code_that_was_edited_and_not_run_again_is_noted(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    command("run", "decay_study.py", *SEEDS, "--workers", "1", cwd=tmp_path)
    path.write_text(path.read_text() + "\nEDITED = True\n")
    command("judge", "runs", "--study", "decay_study.py", "--json", "v.json", cwd=tmp_path)
    (row,) = json.loads((tmp_path / "v.json").read_text())
    assert any("the study's code has changed since these runs" in note for note in row["notes"])


def test_a_damaged_record_is_found_whatever_its_study_is_called(tmp_path: Path) -> None:
    path = write_study(tmp_path)
    path.write_text(path.read_text().replace('"decay"', '"my lab/decay"').replace('"fast"', '"fast, x"'))
    command("run", "decay_study.py", *SEEDS, "--workers", "1", cwd=tmp_path)
    store = kymograph.Store.open(tmp_path / "runs")
    (store.select(arms=["fast, x"]).runs[0].directory / "config.json").write_text("{")
    (verdict,) = kymograph.judge(tmp_path / "runs")
    assert verdict.outcome == "INVALID" and "does not count" in verdict.reason and "missing" not in verdict.reason


def test_a_copy_of_a_studys_directory_declares_nothing(tmp_path: Path) -> None:
    write_study(tmp_path)
    command("run", "decay_study.py", "--seeds", "1", "--workers", "1", cwd=tmp_path)
    shutil.copytree(tmp_path / "runs" / "decay", tmp_path / "runs" / "decay_backup")
    copied = tmp_path / "runs" / "decay_backup" / "study.json"
    copied.write_text(copied.read_text().replace("Does a decay", "Does no decay"))
    assert Directory(tmp_path / "runs").declarations["decay"].question.startswith("Does a decay")
