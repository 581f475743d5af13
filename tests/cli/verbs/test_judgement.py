from __future__ import annotations

import json
from pathlib import Path

import pytest

import kymograph as ky
from tests.cli.command import call


def test_one_study_is_judged_by_name_or_by_code(coin: Path, capsys: pytest.CaptureFixture) -> None:
    runs = str(coin.parent / "runs")
    for study in ("coin", str(coin)):
        assert call("judge", runs, "--study", study) == 0
        assert capsys.readouterr().err.splitlines()[-1].startswith("no claims are registered for these runs")
    assert call("judge", runs, "--study", "cliping") == 1
    assert "has no runs of 'cliping'; did you mean 'clipping'" in capsys.readouterr().err


def test_csv_files_cannot_be_selected_by_study(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("judge", "ours", "theirs", "--csv", "--study", "depth") == 2
    assert "choose among stored runs, not CSV files" in capsys.readouterr().err


def test_a_dash_prints_nothing_but_the_format_asked_for(
    coin: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    """`--json -` used to write a file of that name."""
    runs = str(coin.parent / "runs")
    assert call("judge", runs, "--study", "coin", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == []
    for arm, value in (("ours", 1.0), ("theirs", 2.0)):
        (tmp_path / arm).mkdir()
        rows = "".join(f"{seed},0,{value + seed / 100}\n" for seed in range(10))
        (tmp_path / arm / "loss.csv").write_text("seed,step,value\n" + rows)
    words = ("judge", str(tmp_path / "ours"), str(tmp_path / "theirs"), "--csv", "--direction", "less")
    assert call(*words, "--json", "-", "--markdown", str(tmp_path / "table.md")) == 0
    captured = capsys.readouterr()
    (row,) = json.loads(captured.out)
    assert row["claim"] and captured.err.strip().endswith("table.md")
    assert call(*words, "--markdown", "-") == 0
    assert capsys.readouterr().out == (tmp_path / "table.md").read_text()
    assert call(*words, "--markdown", "-", "--json", "-") == 2
    assert "choose one" in capsys.readouterr().err


def test_claims_that_were_lost_with_the_log_are_not_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """A damaged registration used to be answered with "no claims are registered", and exit code 0."""
    path = tmp_path / "bowls.py"
    path.write_text("from dataclasses import replace\n\nfrom tests.studies.bowl import Bowl as Base\n\n\n"
                    "class Bowls(Base):\n    name = 'bowls'\n    tune = None\n")  # fmt: skip
    runs = tmp_path / "runs"
    assert call("run", str(path), "--seeds", "1", "2", "--dir", str(runs), "--engine", "serial", "--quiet") == 0
    (segment,) = (runs / "log").glob("*.jsonl")
    segment.write_bytes(segment.read_bytes().replace(b'"margin"', b'"mangin"', 1))
    capsys.readouterr()
    assert call("judge", str(runs)) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "line 1 was edited" in said and "from a copy" in said


@pytest.mark.science
def test_every_claim_is_named_once_and_every_line_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert call("power", "clipping", "--n", "6", "10") == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    claims = [line for line in lines if line.startswith("  - ")]
    assert claims and len(set(claims)) == len(claims)


@pytest.mark.science
def test_the_question_stands_right_above_its_columns(capsys: pytest.CaptureFixture) -> None:
    assert call("power", "clipping", "--n", "10") == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [index for index, line in enumerate(lines) if line.startswith("     n")]
    assert heads and all(lines[index - 1].endswith((" is", " by")) for index in heads)


CLAIM = """
[[claim]]
name = "low ends lower"
study = "mine"
arm = "low"
against = "high"
summary = "loss"
direction = "less"
margin = 0.1
"""


@pytest.fixture
def claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file with one claim about a recorded loop."""
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "claims.toml"
    path.write_text(CLAIM)
    return str(path)


def record(root: Path, seed: int) -> None:
    with ky.record("mine", arm="low", seed=seed, out=root) as run:
        run.summary["loss"] = 0.5


def test_seeds_that_are_added_are_announced(claims: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("register", claims, "--dir", str(tmp_path / "runs"), "--seeds", "0", "1", "2", "3", "4", "5") == 0
    said = capsys.readouterr().out
    assert "6 seeds given; 4 more were added from the fixed list" in said and "seeds: 0 1 2 3 4 5 42 123" in said
    assert call("register", claims, "--dir", str(tmp_path / "ten"), "--seeds", *map(str, range(10))) == 0
    assert call("register", claims, "--dir", str(tmp_path / "default")) == 0
    assert "were added" not in capsys.readouterr().out


def test_runs_that_are_already_there_make_the_claims_post_hoc(
    claims: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    root = tmp_path / "runs"
    assert call("register", claims, "--dir", str(root)) == 0
    for seed in (42, 123):
        record(root, seed)
    assert call("register", claims, "--dir", str(root)) == 0
    assert "post hoc" not in capsys.readouterr().out, "they were registered before"
    late = tmp_path / "late"
    for seed in (42, 123):
        record(late, seed)
    assert call("register", claims, "--dir", str(late)) == 0
    assert "these claims are post hoc for the 2 runs already there\n" in capsys.readouterr().out


def test_other_seeds_are_refused_whether_or_not_there_are_runs(
    claims: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    errors = []
    for name in ("empty", "begun"):
        root = tmp_path / name
        if name == "begun":
            record(root, 42)
        assert call("register", claims, "--dir", str(root), "--seeds", "1", "2") == 0
        assert call("register", claims, "--dir", str(root), "--seeds", "1", "2") == 0, "the same seeds are no change"
        assert call("register", claims, "--dir", str(root), "--seeds", "3", "4") == 1
        errors.append(capsys.readouterr().err.replace(name, ""))
    assert errors[0] == errors[1] and "with other seeds, which cannot be changed" in errors[0]


def test_every_line_fits_the_terminal(claims: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("register", claims, "--dir", str(tmp_path / "runs"), "--looks", "10", "15", "20") == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_abandoning_and_taking_back_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    runs = str(tmp_path)
    for seed in range(2):
        with ky.record("own", arm="a", seed=seed, config={"lr": 0.1}, out=runs) as run:
            run.log(loss=1.0)
    with pytest.raises(KeyboardInterrupt), ky.record("own", arm="a", seed=2, config={"lr": 0.1}, out=runs):
        raise KeyboardInterrupt
    capsys.readouterr()
    assert call("abandon", runs, "--reason", "too dear") == 0
    said = capsys.readouterr().out
    assert said.startswith("1 planned run abandoned; verdicts on their arms will say so\n2 runs with results kept;")
    assert call("abandon", runs, "--reason", "too dear", "--seeds", "1") == 1
    assert (
        "nothing to abandon: 1 run selected, all with results; to give them up, add --finished"
        in capsys.readouterr().err
    )
    assert call("abandon", runs, "--reason", "bad", "--seeds", "1", "--where", "lr=0.1", "--finished") == 0
    assert capsys.readouterr().out == "1 planned run abandoned; verdicts on their arms will say so\n"
    assert call("show", "--dir", runs) == 0
    said = capsys.readouterr().out
    assert "1 finished, 2 abandoned" in said and "a/s1  abandoned  bad" in said
    assert call("abandon", runs, "--reason", "no", "--undo", "--finished") == 2
    assert call("abandon", runs, "--reason", "by mistake", "--undo", "--seeds", "1") == 0
    assert "1 abandoned run taken back" in capsys.readouterr().out
    assert call("abandon", runs, "--reason", "by mistake", "--undo", "--seeds", "1") == 1
    assert "no abandoned run in" in capsys.readouterr().err
    assert call("show", "--dir", runs, "--json") == 0
    assert [run["status"] for run in json.loads(capsys.readouterr().out)] == ["finished", "finished", "abandoned"]


def test_the_directory_before_the_claims_is_understood_as_in_earlier_versions(
    claims: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    assert call("register", claims) == 0
    expected = capsys.readouterr()
    assert expected.err == "" and Path("runs", "log").is_dir()
    assert call("register", "new/runs", claims, "--looks", "10", "15") == 0
    captured = capsys.readouterr()
    assert captured.err == "note: `kymograph register DIR CLAIMS` is now `kymograph register CLAIMS --dir DIR`\n"
    assert "registered: " in captured.out and Path("new", "runs", "log").is_dir()
