"""CSV files from elsewhere, judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kymograph._claims.judge_csv import directions_by_series, judge_csv, read_csv_arm
from kymograph._claims.verdict import Outcome
from kymograph._errors import KymographError
from tests.cli.command import call


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Two arms of eight seeds: the accuracy of `ours` is higher by 1, its loss lower by 1."""
    draw = np.random.default_rng(0)
    for arm, shift in (("ours", 1.0), ("theirs", 0.0)):
        (tmp_path / arm).mkdir()
        for series, sign in (("accuracy", 1), ("loss", -1)):
            values = [(seed, step, sign * shift + step + 0.1 * draw.random()) for seed in range(8) for step in range(3)]
            lines = [f"{seed},{step},{value:.4f}" for seed, step, value in values]
            (tmp_path / arm / f"{series}.csv").write_text("\n".join(["seed,step,value", *lines]) + "\n")
    return tmp_path


def test_a_direction_is_required(results: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(KymographError, match="--direction less"):
        judge_csv(results / "ours", results / "theirs")
    words = ("judge", str(results / "ours"), str(results / "theirs"), "--csv")
    assert call(*words) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "--direction less, --direction greater" in error
    assert call(*words, "--direction", "greater") == 0


def test_a_lower_loss_and_a_higher_accuracy_are_supported_in_one_go(results: Path) -> None:
    found = judge_csv(results / "ours", results / "theirs", direction=["loss=less", "accuracy=greater"])
    assert [(one.claim.name, one.outcome) for one in found] == [
        ("last loss", Outcome.SUPPORTED),
        ("last accuracy", Outcome.SUPPORTED),
    ]
    assert found[0].claim.text == "the last loss is less in ours than in theirs"
    assert found[0].registration == "post hoc" and found[1].effect == pytest.approx(1.0, abs=0.1)


def test_one_direction_is_about_every_series(results: Path) -> None:
    found = {one.claim.name: one.outcome for one in judge_csv(results / "ours", results / "theirs", direction="less")}
    assert found == {"last accuracy": Outcome.REFUTED, "last loss": Outcome.SUPPORTED}


def test_claims_of_a_file_have_their_own_directions(results: Path) -> None:
    claims = results / "claims.toml"
    claims.write_text('[[claim]]\nname="x"\narm="ours"\nagainst="theirs"\nseries="accuracy"\nreduce="max"\n'
                      'direction="greater"\nmargin=0.5\n')  # fmt: skip
    assert judge_csv(results / "ours", results / "theirs", claims)[0].outcome is Outcome.SUPPORTED
    with pytest.raises(KymographError, match="drop --direction or --claims"):
        judge_csv(results / "ours", results / "theirs", claims, "less")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["lower"], "takes less or greater, or SERIES=less, not 'lower'"),
        (["los=less"], "share no series 'los'; did you mean 'loss'"),
        (["less", "accuracy=greater"], "name one series with each direction"),
    ],
)
def test_a_wrong_direction_is_one_sentence(words: list[str], error: str) -> None:
    with pytest.raises(KymographError, match=error):
        directions_by_series(words, ["accuracy", "loss"])


def test_stored_runs_have_no_direction_on_the_command_line(capsys: pytest.CaptureFixture) -> None:
    assert call("judge", "runs", "--direction", "less") == 2
    assert "--direction is for CSV files" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("1,0,9007199254740993", "x.csv, line 2 .*: 9007199254740993 is not exactly a float64"),
        ("1,0,1e400", "line 2 .*: 1e400 is too large"),
        ("1,nan,1", "line 2 .*: a step must be finite, not nan"),
        ("1,9223372036854775808,1", "line 2 .*: a step must fit in 64 bits"),
        ("0.5,0,1", "line 2 .*: it has no valid seed"),
        (f"1,0,{10**400}", "line 2 .*: an integer has more than 300 digits"),
        ("1,0.5,1\n1,9007199254740993,1", "fractional steps and integers too large to go with them"),
        ("1,1,1\n1,1.0,2", "two values at one step of seed 1"),
    ],
)
def test_a_number_that_would_change_is_refused(tmp_path: Path, rows: str, words: str) -> None:
    (tmp_path / "x.csv").write_text(f"seed,step,value\n{rows}\n")
    with pytest.raises(KymographError, match=words):
        read_csv_arm(tmp_path)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("seed,step,value,value\n1,0,1,2\n")
    with pytest.raises(KymographError, match="has 2 columns 'value'"):
        read_csv_arm(tmp_path)


def test_fractional_steps_are_read_in_order(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("seed,step,value\n1,0.5,2\n1,0.25,1\n1,3000000000,3\n")
    (run,) = read_csv_arm(tmp_path)
    assert run.series["x"].step.tolist() == [0.25, 0.5, 3e9] and run.series["x"].value.tolist() == [1.0, 2.0, 3.0]
