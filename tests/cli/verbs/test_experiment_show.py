from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

import kymograph as ky
from kymograph._runs import record
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
        (("--status", "failed", "finished"), 8),
        (("--where", "lr<=0.03"), 4),
        (("--where", "lr>.01", "lr<.05", "seed=1"), 2),
        (("--where", "broken=True"), 4),
        (("--where", "loss<0.05"), 3),
        (("--where", "loss != 0.1"), 3),
        (("--where", "score>=0", "arm!=good"), 2),
        (("--where", "lr=7"), 0),
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
        (("--where", "lrr=1"), "no run has a setting, a summary number or a series 'lrr'; did you mean 'lr'?"),
        (("--sort", "scor"), "no run has a setting, a summary number or a series 'scor'; did you mean 'score'?"),
        (("--where", "lr"), "--where takes NAME=VALUE, NAME<VALUE and the like, not 'lr'"),
        (("--where", "lr<small"), "which is neither more nor less than 'small'; ask for it with = or !="),
        (("--descending",), "--descending needs --sort NAME"),
        (("--status", "running"), "there is no run status 'running'; a run that has not ended is 'missing'"),
        (("--status", "fail"), "there is no run status 'fail'; did you mean 'failed'?"),
        (("--json", "--path"), "choose one"),
    ],
)
def test_a_wrong_choice_is_one_sentence(
    shaky: Path, words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture
) -> None:
    assert call("show", "--dir", str(shaky), *words) in (1, 2)
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


def shown_names(words: tuple[str, ...], capsys: pytest.CaptureFixture) -> list[str]:
    capsys.readouterr()
    assert call("show", *words, "--json") == 0
    return [run["name"].split("/", 1)[1] for run in json.loads(capsys.readouterr().out)]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four recorded runs with a clash of names, a series with sites, and one run that did not finish."""
    root = tmp_path_factory.mktemp("measured") / "runs"
    for seed, loss in ((1, 0.5), (2, 0.25), (3, math.nan), (4, 2.0)):
        with ky.record(
            "mine", arm="adam", seed=seed, config={"lr": seed / 10, "task": "text", "seed": 7}, out=root
        ) as run:
            run.log(loss=9.0)
            run.log(loss=loss, output_norm={"layers.0": seed, "layers.1": -seed}, one={"network": seed})
            run.summary(accuracy=1 - seed / 10, lr=float(seed))
    unfinished = ky.record("mine", arm="sgd", seed=5, config={"lr": 0.1}, out=root)
    unfinished.close()
    return root


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        (("--where", "loss<1"), "12"),
        (("--where", "loss>=0.5", "accuracy>0.8"), "1"),
        (("--where", "series/output_norm/layers.1<-2"), "34"),
        (("--where", "one>3"), "4"),
        (("--where", "summary/lr=2"), "2"),
        (("--where", "setting/lr>0.25"), "34"),
        (("--where", "written>2020-01", "seconds>=0"), "1234"),
        (("--where", "version=1", "--status", "missing"), "5"),
        (("--sort", "loss"), "21435"),
        (("--sort", "loss", "--descending"), "41235"),
        (("--sort", "accuracy"), "43215"),
        (("--sort", "output_norm/layers.1"), "43215"),
        (("--sort", "status", "--descending"), "53124"),
        (("--sort", "id", "--status", "missing"), "5"),
    ],
)
def test_runs_are_chosen_and_sorted_by_their_numbers(
    measured: Path, words: tuple[str, ...], seeds: str, capsys: pytest.CaptureFixture
) -> None:
    names = shown_names(("--dir", str(measured), *words), capsys)
    assert "".join(name.partition("/s")[2][0] for name in names) == seeds


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--where", "lr=1"), "'lr' means several things that differ in these runs; write setting/lr or summary/lr"),
        (("--where", "seed=1"), "write setting/seed or what every run has, its seed, which has an option of its own"),
        (("--sort", "output_norm"), "output_norm was measured at 2 sites; name one of them, e.g. output_norm/layers.0"),
        (("--sort", "output_norm/layers.7"), "output_norm was not measured at 'layers.7'; did you mean 'layers.1'?"),
    ],
)
def test_a_name_that_may_mean_several_things_is_refused(
    measured: Path, words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture
) -> None:
    assert call("show", "--dir", str(measured), *words) == 1
    assert error in capsys.readouterr().err


def test_the_table_has_the_numbers_that_were_asked_for(measured: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("show", "--dir", str(measured), "--sort", "loss", "--where", "setting/lr<1") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()[1:3]]
    assert lines == [["run", "status", "setting/lr", "loss", "(last)", "accuracy", "lr"],
                     ["adam/s2", "finished", "0.2", "0.25", "0.8", "2"]]  # fmt: skip
    assert call("show", "--dir", str(measured), "--sort", "loss", "--json") == 0
    assert [run["last"] for run in json.loads(capsys.readouterr().out)][2:4] == [{"loss": 2.0}, {"loss": None}]


def test_that_nothing_was_found_is_said_in_a_sentence(measured: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("show", "--dir", str(measured), "--arm", "adam", "--seed", "1", "--status", "failed", "--where", "loss<0")
    for option, out in ((), ""), (("--path",), ""), (("--json",), "[]\n"):
        assert call(*words, *option) == 0
        captured = capsys.readouterr()
        assert captured.out == out
        assert captured.err == (
            f"note: none of 5 runs in {measured} is of the arm adam, at seed 1, failed, such that loss<0\n"
        )


def test_series_are_read_only_if_they_are_asked_for(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    read: list[str] = []
    read_file = record.read_file

    def noted(directory: Path, name: str, *arguments: Any) -> bytes:
        read.append(f"{name} of {Path(directory).name[:7]}")
        return read_file(directory, name, *arguments)

    monkeypatch.setattr(record, "read_file", noted)
    assert call("show", "--dir", str(measured), "--where", "accuracy>0", "setting/lr<1", "--sort", "accuracy") == 0
    assert read == []
    assert call("show", "--dir", str(measured), "--where", "loss<1", "accuracy<0.75", "--sort", "loss") == 0
    assert read == ["arrays.safetensors of adam-s3", "arrays.safetensors of adam-s4"], "once, of what is left"


def test_a_run_whose_series_are_damaged_is_named(measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    shutil.copytree(measured, tmp_path / "runs", symlinks=True)
    (damaged,) = (tmp_path / "runs").glob("*/adam-s2-*/arrays.safetensors")
    content = damaged.read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert call("show", "--dir", str(tmp_path / "runs"), "--where", "loss<1", "--path") == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1 and "adam-s1-" in captured.out
    assert captured.err.startswith("left out: ") and "adam-s2-" in captured.err and captured.err.count("\n") == 1


def test_other_verbs_choose_by_settings_alone(measured: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("export", str(measured), "--to", "json", "-o", "x.json", "--where", "lr<=0.1") == 2
    assert "--where takes FIELD=VALUE, not 'lr<=0.1'; only `kymograph show` compares" in capsys.readouterr().err


def test_texts_are_compared_as_they_were_written(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for arm in ("1", "1e3"):
        with ky.record("named", arm=arm, seed=1, out=tmp_path) as run:
            run.summary["x"] = 1.0
    for condition, arms in (
        ("arm=1", ["1"]),
        ("arm!=1", ["1e3"]),
        ("arm=1e3", ["1e3"]),
        ("written>2020", ["1", "1e3"]),
    ):
        assert call("show", "--dir", str(tmp_path), "--where", condition, "--json") == 0
        assert [run["arm"] for run in json.loads(capsys.readouterr().out)] == arms, condition
    assert call("show", "--dir", str(tmp_path), "--where", "x=>0") == 2
    assert "not 'x=>0'" in capsys.readouterr().err
