from __future__ import annotations

import json
from pathlib import Path

import pytest

from kymograph._runs.store import Store
from tests.cli.command import call

FAILING = """
import kymograph as ky


@ky.study(question="?", arms={"good": {}, "bad": {"broken": True}}, headlines={"score": "the score"})
def shaky_study(run, *, lr: float = 0.1, broken: bool = False):
    if broken and run.seed == 2:
        raise ValueError("the second seed is cursed")
    with run.seeded("data"):
        import random

        score = random.random()
    run.log(loss=lr)
    return {"score": score}
"""


@pytest.fixture(scope="module")
def shaky(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two learning rates of two arms at two seeds; the arm `bad` fails at seed 2."""
    root = tmp_path_factory.mktemp("shaky")
    (root / "shaky.py").write_text(FAILING)
    runs = str(root / "runs")
    words = ("run", str(root / "shaky.py"), "--seeds", "1", "2", "--grid", "lr=0.1,0.03", "--dir", runs)
    assert call(*words, "--engine", "serial", "--quiet") == 1
    return Path(runs)


def test_the_table_has_names_and_fits_eighty_columns(shaky: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("show", "--dir", str(shaky)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "shaky: 6 finished, 2 failed" and len(lines) == 2 + 8
    assert lines[1].split() == ["run", "status", "score"]
    (failed,) = [line for line in lines if "bad/s2,lr=0.1 " in line]
    assert failed.split(maxsplit=2) == ["bad/s2,lr=0.1", "failed", "ValueError: the second seed is cursed"]
    assert max(map(len, lines)) <= 80


def test_a_table_of_long_names_fits_too(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "long.py"
    long = "an_arm_with_a_name_that_is_much_too_long_for_any_table_of_eighty_columns_to_hold"
    path.write_text(FAILING.replace('"good"', f'"{long}"').replace("cursed", "cursed, " * 30))
    assert call("run", str(path), "--seeds", "2", "--dir", str(tmp_path / "r"), "--engine", "serial", "--quiet") == 1
    capsys.readouterr()
    assert call("show", "--dir", str(tmp_path / "r")) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80 and sum("…" in line for line in lines) == 2


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (("--where", "lr=0.1"), 4),
        (("--arm", "good"), 4),
        (("--arms", "g*", "bad"), 8),
        (("--seed", "2"), 4),
        (("--status", "failed"), 2),
        (("--status", "missing"), 0),
        (("--status", "failed", "--where", "lr=0.03"), 1),
        (("good/s1",), 2),
        (("bad/*", "--seed", "1"), 2),
    ],
)
def test_runs_are_chosen(shaky: Path, words: tuple[str, ...], count: int, capsys: pytest.CaptureFixture) -> None:
    assert call("show", "--dir", str(shaky), *words, "--path") == 0
    found = capsys.readouterr().out.split()
    assert len(found) == count and all((Path(path) / "status.json").is_file() for path in found)


def test_one_run_is_shown_in_full(shaky: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("show", "--dir", str(shaky), "good/s1,lr=0.03") == 0
    text = capsys.readouterr().out
    run = next(run for run in Store.open(shaky) if (run.arm, run.seed, run.config["lr"]) == ("good", 1, 0.03))
    assert text.startswith("shaky/good/s1,lr=0.03: finished in ")
    assert str(run.directory) in text and run.id in text and "\n  lr      0.03\n" in text
    assert f"\n  score  {run.summary['score']:.6g}\n" in text and "\nseries\n  loss\n" in text and "versions" in text
    assert call("show", "--dir", str(shaky), "shaky/bad/s2,lr=0.1") == 0
    text = capsys.readouterr().out
    assert "reason     ValueError: the second seed is cursed" in text
    assert "Traceback (most recent call last)" in text and "shaky.py" in text


def test_json_has_a_list_or_one_run(shaky: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("show", "--dir", str(shaky), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == 8 and {run["settings"]["lr"] for run in found} == {0.1, 0.03}
    assert found[0]["name"].startswith("shaky/bad/s1") and Path(found[0]["directory"]).is_dir()
    assert call("show", "--dir", str(shaky), "bad/s2,lr=0.1", "--json") == 0
    one = json.loads(capsys.readouterr().out)
    assert one["status"] == "failed" and "cursed" in one["traceback"] and one["provenance"]["device"] == "cpu"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("god/s1",), "there is no run 'god/s1'; did you mean 'good/s1"),
        (("--arm", "god"), "no run has the arm 'god'; did you mean 'good'?"),
        (("--study", "shakey"), "no run has the study 'shakey'; did you mean 'shaky'?"),
        (("--where", "lrr=1"), "no run has a setting 'lrr'; did you mean 'lr'?"),
        (("--status", "fail"), "there is no run status 'fail'; did you mean 'failed'?"),
        (("--json", "--path"), "choose one"),
    ],
)
def test_a_wrong_choice_is_one_sentence(
    shaky: Path, words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture
) -> None:
    assert call("show", "--dir", str(shaky), *words) == 1
    text = capsys.readouterr().err
    assert error in text and text.count("\n") == 1


def test_an_empty_directory_says_how_to_make_runs(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("show", "--dir", str(tmp_path)) == 1
    assert "contains no runs; make some with `kymograph run" in capsys.readouterr().err


def test_a_directory_in_front_is_understood_as_in_earlier_versions(
    shaky: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(shaky.parent)  # where `runs` is
    for now, before in (
        (("--json",), ("runs", "--json")),
        (("good/s1,lr=0.03",), ("runs", "good/s1,lr=0.03")),
        (("bad/*", "--path"), ("--path", "runs", "bad/*")),
    ):
        assert call("show", *now) == 0
        expected = capsys.readouterr()
        assert expected.err == ""
        for verb in ("show", "runs"):
            assert call(verb, *before) == 0
            captured = capsys.readouterr()
            assert captured.out == expected.out
            assert captured.err.splitlines()[-1].endswith("given as --dir DIR now: `kymograph show [NAME] --dir DIR`")
    assert call("show", "good/s7") == 1
    assert "there is no run 'good/s7'" in capsys.readouterr().err
    assert call("runs", "absent", "good/s1") == 1
    assert "there is no directory absent" in capsys.readouterr().err
