from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from kymograph._cli.main import FAILED, FAULT, INTERRUPTED, MISUSED, exit_status, main, state_directory
from kymograph._errors import KymographError, UsageError
from tests.cli.command import call

FAULTS = [KeyError("x"), ValueError("a fault"), AssertionError(), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of our own for saved tracebacks."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "kymograph"


def raising(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes ``kymograph studies`` raise ``error``."""

    def verb(words: list[str]) -> int:
        raise error

    monkeypatch.setattr("kymograph._cli.verbs.experiment.studies_verb", verb)


@pytest.mark.parametrize("error", FAULTS, ids=lambda error: type(error).__name__)
def test_a_fault_is_an_apology_and_a_saved_traceback(
    error: Exception, state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    raising(error, monkeypatch)
    assert call("studies") == FAULT
    said = capsys.readouterr().err
    (saved,) = state.iterdir()
    assert said.count("\n") == 1 and said.startswith("kymograph: sorry") and said.endswith(f"{saved}\n")
    text = saved.read_text()
    assert (
        "Traceback (most recent call last)" in text
        and type(error).__name__ in text
        and "command: kymograph studies" in text
    )
    assert stat.S_IMODE(saved.stat().st_mode) == 0o600 and stat.S_IMODE(state.stat().st_mode) == 0o700


def test_a_traceback_goes_to_the_temporary_directory_if_there_is_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    raising(KeyError("x"), monkeypatch)
    assert call("studies") == FAULT
    (saved,) = (tmp_path / "temporary").iterdir()
    assert str(saved) in capsys.readouterr().err and stat.S_IMODE(saved.stat().st_mode) == 0o600


def test_where_nothing_can_be_saved_the_way_to_see_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    monkeypatch.setattr("tempfile.tempdir", "/dev/null")
    sentence, code = exit_status(KeyError("x"))
    assert code == FAULT and "--debug" in sentence


def test_a_relative_state_directory_is_not_taken_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "runs")  # it would lie in whatever directory the command was started in
    assert state_directory().is_absolute()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KymographError("mend this"), FAILED, "mend this"),
        (UsageError("no such option"), MISUSED, "no such option"),
        (KeyboardInterrupt(), INTERRUPTED, "run the same command again"),
        (MemoryError(), FAILED, "not enough memory"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried 8 TB"), FAILED, "memory"),
        (RecursionError("maximum recursion depth exceeded"), FAILED, "nested too deeply"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/x/runs"), FAILED, "/x/runs: No space left on device; free"),
        (PermissionError(errno.EACCES, "Permission denied", b"/x/y"), FAILED, "/x/y: Permission denied; ask for"),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), FAILED, "the output"),
        (OSError("no number, so no file"), FAULT, "sorry"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), FAILED, ""),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_what_the_system_refuses_is_one_sentence(error: BaseException, code: int, words: str) -> None:
    sentence, found = exit_status(error)
    assert found == code and words in sentence and "\n" not in sentence and (words != "" or sentence == "")


@pytest.mark.parametrize("error", [KymographError("mend this"), ValueError("a fault")])
def test_debug_prints_the_traceback_and_the_sentence(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    raising(error, monkeypatch)
    assert call("studies", "--debug") == (FAILED if isinstance(error, KymographError) else FAULT)
    said = capsys.readouterr().err
    assert "Traceback" in said and "in verb" in said and said.splitlines()[-1].startswith("kymograph: ")


def test_a_thread_that_ends_in_a_fault_says_so_in_one_sentence(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    def verb(words: list[str]) -> int:
        def fail() -> None:
            raise ValueError("in a thread")

        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        return 0

    monkeypatch.setattr("kymograph._cli.verbs.experiment.studies_verb", verb)
    before = threading.excepthook
    assert call("studies") == 0
    said = capsys.readouterr().err
    assert "Traceback" not in said and said.startswith("kymograph: sorry") and len(list(state.iterdir())) == 1
    assert threading.excepthook is before


@pytest.mark.parametrize(
    ("redirection", "code", "words"),
    [("> /dev/full", 1, "No space left on device"), (">&-", 0, ""), ("> /dev/full 2>&-", 1, ""), ("2>&-", 0, "")],
)
def test_an_output_that_cannot_be_written_is_no_traceback(redirection: str, code: int, words: str) -> None:
    command = f"{sys.executable} -m kymograph studies {redirection}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True)
    assert done.returncode == code and done.stderr.count("\n") == bool(words) and words in done.stderr


def test_system_exit_of_a_verb_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    raising(SystemExit(5), monkeypatch)
    with pytest.raises(SystemExit) as exit_:
        main(["studies"])
    assert exit_.value.code == 5


@pytest.mark.science
@pytest.mark.parametrize(
    "words",
    [
        ("judge", "runs", "others"),
        ("run", "clipping", "--n-seeds", "0"),
        ("run", "clipping", "--n-seeds", "ten"),
        ("run", "clipping", "--grid", "lrr=1,2"),
        ("run", "clipping", "--grid", "lr=1,1"),
        ("run", "clipping", "--arms", "typo"),
        ("run", "clipping", "--lrr", "1"),
        ("run", "clipping", "--epochs", "0"),
        ("new", "study", "9x"),
        ("new", "mine"),
        ("new", "model", "mine"),
        ("power", "clipping", "--family", "0"),
        ("export", "runs", "--to", "csv", "--output", "-"),
    ],
    ids=" ".join,
)
def test_a_request_that_cannot_be_understood_is_a_misuse(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call(*words) == MISUSED
    assert capsys.readouterr().err.count("\n") == 1 and list(tmp_path.iterdir()) == []
