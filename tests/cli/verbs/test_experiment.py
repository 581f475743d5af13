from __future__ import annotations

import importlib
import inspect
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kymograph._cli.verbs.experiment import MOST_ARMS
from kymograph._runs.store import Store
from kymograph._studies.loading import list_studies
from tests.cli.command import call, write_coin


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


def test_the_new_study_needs_nothing_but_torch_and_the_tool(workspace: Path) -> None:
    assert call("new", "study", "lean_idea") == 0
    lines = (workspace / "lean_idea.py").read_text().splitlines()
    imports = [line.split()[1] for line in lines if line.startswith(("import ", "from "))]
    assert {name.split(".")[0] for name in imports} == {"torch", "kymograph"}


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
    assert call("new", "study", "mine_too", "-o", "an/other") == 0
    assert call("new", "study", "mine_too", "--directory", "an/other") == 1, "its earlier name"
    assert "mine_too.py exists" in capsys.readouterr().err


@pytest.mark.science
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


@pytest.mark.science
def test_every_registered_study_is_listed_with_its_default_arms(capsys: pytest.CaptureFixture) -> None:
    assert call("studies") == 0
    text = capsys.readouterr().out
    names = [line.split(":")[0] for line in text.splitlines() if line and not line.startswith(" ")]
    assert names[:4] == ["clipping", "depth", "snapshot", "calibration"]
    assert "* extreme/clip" in text and "and 18 more: `kymograph studies snapshot`" in text


@pytest.mark.science
def test_a_study_with_many_default_arms_does_not_fill_the_screen(capsys: pytest.CaptureFixture) -> None:
    """`rule-family` used to be listed with 53 arms."""
    assert call("studies") == 0
    every = {study.name: study.arms() for study in list_studies()}
    for block in capsys.readouterr().out.strip().split("\n\n"):
        listed = [line for line in block.splitlines() if line.startswith("  * ")]
        arms = every[block.split(":")[0]]
        assert len(listed) == min(MOST_ARMS, sum(arm.default for arm in arms))
        assert f"and {len(arms) - len(listed)} more: " in block or len(listed) == len(arms)


@pytest.mark.science
def test_one_study_is_listed_with_every_arm(capsys: pytest.CaptureFixture) -> None:
    assert call("studies", "clipping") == 0
    text = capsys.readouterr().out
    assert "  * extreme/no_clip " in text and "    learnable/extreme/clip " in text and "runs by default" in text


@pytest.mark.science
def test_one_study_is_listed_with_its_settings_and_their_defaults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert call("studies", "depth") == 0
    text = capsys.readouterr().out
    assert "  --layers 20       Layers in the stack." in text and "--prenorm no" in text
    settings = text.split("Settings and their defaults:")[1]
    assert all(len(line) <= 80 for line in settings.splitlines())


@pytest.mark.parametrize("reference", ["coin_listed:Coin", "coin_listed.py", "coin_listed.py:Coin", "./coin_listed.py"])
def test_a_user_defined_study_is_listed_by_module_and_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, reference: str
) -> None:
    write_coin(tmp_path, "coin_listed.py")
    monkeypatch.chdir(tmp_path)
    assert call("studies", reference) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "coin: Does it land heads?"
    assert lines[1:3] == ["  * fair  an honest coin", "    bent  a bent one"]


def test_a_file_without_a_study_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert call("studies", str(tmp_path / "empty.py")) == 1
    assert "empty.py defines no study" in capsys.readouterr().err


def test_others_are_mentioned_only_if_there_are_any(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write_coin(tmp_path, "coin_all.py")
    assert call("studies", str(path)) == 0
    assert "run the others by name" in capsys.readouterr().out
    path = tmp_path / "coin_default.py"
    path.write_text(write_coin(tmp_path).read_text().replace('Arm("bent", "a bent one")', 'Arm("bent", default=True)'))
    assert call("studies", str(path)) == 0
    said = capsys.readouterr().out
    assert "* runs by default\n" in said and "others" not in said


@pytest.mark.parametrize("named_by", ["name", "file"])
def test_one_study_is_watched_by_name_or_by_code(coin: Path, capsys: pytest.CaptureFixture, named_by: str) -> None:
    runs = str(coin.parent / "runs")
    assert call("watch", runs, "--once") == 0
    assert "clipping" in capsys.readouterr().out
    assert call("watch", runs, "--once", "--study", "coin" if named_by == "name" else str(coin)) == 0
    text = capsys.readouterr().out
    assert "coin" in text and "clipping" not in text


def test_a_study_without_runs_is_named(coin: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("watch", str(coin.parent / "runs"), "--once", "--study", "cone") == 1
    assert "has no runs of 'cone'" in capsys.readouterr().err
