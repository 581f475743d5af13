from __future__ import annotations

from pathlib import Path

import pytest

import kymograph as ky
from tests.cli.command import call

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
    assert call("register", str(tmp_path / "runs"), claims, "--seeds", "0", "1", "2", "3", "4", "5") == 0
    said = capsys.readouterr().out
    assert "6 seeds given; 4 more were added from the fixed list" in said and "seeds: 0 1 2 3 4 5 42 123" in said
    assert call("register", str(tmp_path / "ten"), claims, "--seeds", *map(str, range(10))) == 0
    assert call("register", str(tmp_path / "default"), claims) == 0
    assert "added" not in capsys.readouterr().out


def test_runs_that_are_already_there_make_the_claims_post_hoc(
    claims: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    root = tmp_path / "runs"
    assert call("register", str(root), claims) == 0
    for seed in (42, 123):
        record(root, seed)
    assert call("register", str(root), claims) == 0
    assert "post hoc" not in capsys.readouterr().out, "they were registered before"
    late = tmp_path / "late"
    for seed in (42, 123):
        record(late, seed)
    assert call("register", str(late), claims) == 0
    assert "these claims are post hoc for the 2 runs already there\n" in capsys.readouterr().out


def test_other_seeds_are_refused_whether_or_not_there_are_runs(
    claims: str, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    errors = []
    for name in ("empty", "begun"):
        root = tmp_path / name
        if name == "begun":
            record(root, 42)
        assert call("register", str(root), claims, "--seeds", "1", "2") == 0
        assert call("register", str(root), claims, "--seeds", "1", "2") == 0, "the same seeds are no change"
        assert call("register", str(root), claims, "--seeds", "3", "4") == 1
        errors.append(capsys.readouterr().err.replace(name, ""))
    assert errors[0] == errors[1] and "with other seeds, which cannot be changed" in errors[0]


def test_every_line_fits_the_terminal(claims: str, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert call("register", str(tmp_path / "runs"), claims, "--looks", "10", "15", "20") == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
