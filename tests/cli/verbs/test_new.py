from __future__ import annotations

import importlib
import inspect
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph.runs.store import Store
from tests.cli.command import call


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory to work in, from which modules can be imported; they are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def test_the_new_study_runs_and_is_judged_as_the_printed_commands_say(
    workspace: Path, capsys: pytest.CaptureFixture
) -> None:
    assert call("new", "study", "fresh_idea") == 0
    first, *commands = capsys.readouterr().out.splitlines()
    assert first == "wrote fresh_idea.py and test_fresh_idea.py; next:"
    assert commands[0].strip() == "kymograph run fresh_idea.py --n-seeds 10"
    for command in commands[:3]:
        words = shlex.split(command)[1:]
        assert call(*words, *(("--steps", "60", "--engine", "serial", "--quiet") if words[0] == "run" else ())) == 0
    text = capsys.readouterr().out
    assert "20 runs computed, 0 found, 0 failed" in text and "1 SUPPORTED" in text
    store = Store.open(workspace / "runs")
    assert len(store.seeds) == 10 and store.arms == ("plain", "momentum")
    assert store.series("gradient").axes == ("arm", "seed", "step", "site"), "there is a kymograph to draw"
    assert "Does momentum lower the loss" in (workspace / "report.html").read_text()


def test_its_test_passes(workspace: Path) -> None:
    assert call("new", "study", "tested_idea") == 0
    module = importlib.import_module("test_tested_idea")
    tests = [value for name, value in vars(module).items() if name.startswith("test_") and inspect.isfunction(value)]
    assert len(tests) == 3
    for number, test in enumerate(tests):
        test(workspace / str(number))


def test_nothing_is_overwritten(workspace: Path, capsys: pytest.CaptureFixture) -> None:
    (workspace / "test_mine_too.py").write_text("precious")
    assert call("new", "study", "mine_too") == 1
    assert "test_mine_too.py exists, and is not overwritten" in capsys.readouterr().err
    assert [path.name for path in workspace.iterdir()] == ["test_mine_too.py"]
    assert (workspace / "test_mine_too.py").read_text() == "precious"
    assert call("new", "study", "mine_too", "--directory", "other") == 0
    assert call("new", "study", "mine_too", "--directory", "other") == 1
    assert "mine_too.py exists" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("study", "my-idea"), "cannot be the name of a Python file: use letters, digits and underscores; try my_idea"),
        (("study", "2nd"), "cannot be the name of a Python file"),
        (("study", "class"), "cannot be the name of a Python file"),
        (("study", "../up"), "cannot be the name of a Python file"),
        (("study", "depth"), "there is already a study called depth"),
        (("study", "json"), "json.py would hide the Python module json"),
        (("study", "torch"), "torch.py would hide the Python module torch"),
        (("rule", "mine"), "kymograph new writes a study, not 'rule': kymograph new study NAME"),
    ],
)
def test_a_wrong_name_is_one_sentence_and_writes_nothing(
    workspace: Path, words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture
) -> None:
    assert call("new", *words) == 2
    text = capsys.readouterr().err
    assert error in text and text.count("\n") == 1
    assert list(workspace.iterdir()) == []


def test_a_name_that_ends_in_study_is_not_doubled(workspace: Path) -> None:
    assert call("new", "study", "dropout_study") == 0
    assert "def dropout_study(run" in (workspace / "dropout_study.py").read_text()
    assert "from dropout_study import dropout_study" in (workspace / "test_dropout_study.py").read_text()


def test_a_name_without_its_kind_is_answered_with_the_whole_command(capsys: pytest.CaptureFixture) -> None:
    assert call("new", "mine") == 2
    assert "did you mean `kymograph new study mine`?" in capsys.readouterr().err
