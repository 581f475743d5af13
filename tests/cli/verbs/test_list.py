from __future__ import annotations

from pathlib import Path

import pytest

from kymograph.cli.verbs.experiment import MOST_ARMS
from kymograph.studies.loading import list_studies
from tests.cli.command import call, write_coin


def test_every_registered_study_is_listed_with_its_default_arms(capsys: pytest.CaptureFixture) -> None:
    assert call("list") == 0
    text = capsys.readouterr().out
    names = [line.split(":")[0] for line in text.splitlines() if line and not line.startswith(" ")]
    assert names[:4] == ["clipping", "depth", "snapshot", "calibration"]
    assert "* extreme/clip" in text and "and 18 more: `kymograph list snapshot`" in text


def test_a_study_with_many_default_arms_does_not_fill_the_screen(capsys: pytest.CaptureFixture) -> None:
    """`rule-family` used to be listed with 53 arms."""
    assert call("list") == 0
    every = {study.name: study.arms() for study in list_studies()}
    for block in capsys.readouterr().out.strip().split("\n\n"):
        listed = [line for line in block.splitlines() if line.startswith("  * ")]
        arms = every[block.split(":")[0]]
        assert len(listed) == min(MOST_ARMS, sum(arm.default for arm in arms))
        assert f"and {len(arms) - len(listed)} more: " in block or len(listed) == len(arms)


def test_one_study_is_listed_with_every_arm(capsys: pytest.CaptureFixture) -> None:
    assert call("list", "clipping") == 0
    text = capsys.readouterr().out
    assert "  * extreme/no_clip " in text and "    learnable/extreme/clip " in text and "runs by default" in text


def test_one_study_is_listed_with_its_settings_and_their_defaults(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert call("list", "depth") == 0
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
    assert call("list", reference) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "coin: Does it land heads?"
    assert lines[1:3] == ["  * fair  an honest coin", "    bent  a bent one"]


def test_a_file_without_a_study_is_named(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert call("list", str(tmp_path / "empty.py")) == 1
    assert "empty.py defines no study" in capsys.readouterr().err


def test_others_are_mentioned_only_if_there_are_any(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = write_coin(tmp_path, "coin_all.py")
    assert call("list", str(path)) == 0
    assert "run the others by name" in capsys.readouterr().out
    path = tmp_path / "coin_default.py"
    path.write_text(write_coin(tmp_path).read_text().replace('Arm("bent", "a bent one")', 'Arm("bent", default=True)'))
    assert call("list", str(path)) == 0
    said = capsys.readouterr().out
    assert "* runs by default\n" in said and "others" not in said
