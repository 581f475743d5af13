from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from kymograph._cli.arguments import parse
from kymograph._errors import KymographError
from kymograph._studies.loading import load_study
from kymograph_studies.scripts.flags import SCRIPT_FLAGS, SCRIPTED, answer

RUN = ("--dir", "--seeds", "--arms", "--width", "--log-every", "--random-targets", "--skip")


def said(*words: str, program: str = "kymograph run snapshot", known: tuple[str, ...] = RUN) -> str | None:
    return answer(words, program, known)


def test_a_flag_is_answered_with_its_value_however_it_is_written() -> None:
    expected = "--d_hidden is the setting width here: --width 64"
    assert said("--d_hidden", "64") == said("--d-hidden", "64") == said("--d_hidden=64") == expected
    assert said("--d_hidden") == said("--d_hidden", "--quiet") == "--d_hidden is the setting width here: --width ..."
    assert said("--output_dir", "my runs") == "--output_dir is the option --dir here: --dir 'my runs'"


def test_options_that_are_the_same_here_are_left_alone() -> None:
    assert said("--log_every", "2", "--epochs", "3", "--seeds", "42") is None
    assert said("d_hidden", "42") is None, "a value is no flag"


def test_several_flags_are_answered_at_once_and_each_once() -> None:
    text = said("--skip_bp", "--d_hidden", "8", "--skip_bp")
    assert text == (
        "--skip_bp is the arm resmlp/dfa on its own here: --arms resmlp/dfa; "
        "--d_hidden is the setting width here: --width 8"
    )


def test_a_flag_that_does_something_else_here_is_answered_in_the_scripts_spelling_only() -> None:
    """The script's BP keeps the true labels; the setting is about every arm."""
    assert "the arm resmlp/dfa/random_targets" in (said("--random_targets") or "")
    assert said("--random-targets") is None


def test_a_flag_of_another_command_is_answered_with_that_command() -> None:
    assert said("--n_fresh", "20") == (
        "--n_fresh is the number of draws of `kymograph run calibration` here: kymograph run calibration --draws 20"
    )
    assert said("--ckpt", "a.pt") == (
        "--ckpt is the argument CHECKPOINT of `kymograph calibrate` here: kymograph calibrate a.pt"
    )
    elsewhere = said("--skip_bp", program="kymograph run depth")
    assert elsewhere is not None and "of `kymograph run snapshot`" in elsewhere, "other arms have other names"


def test_commands_that_stand_for_no_script_keep_their_own_errors() -> None:
    assert "judge" not in SCRIPTED and said("--seed", "1", program="kymograph judge", known=("--study",)) is None
    out = said("--output_dir", "x", program="kymograph reproduce", known=("--dir",))
    assert out == "--output_dir is the option --dir here: --dir x", "what has the option says so"
    out = said("--output_dir", "x", program="kymograph figure", known=("--dir", "--output"))
    assert out == "--output_dir is the option --output here: --output x", "its --dir is read, not written"


@dataclass(frozen=True)
class Mine:
    """A user-defined verb."""

    n_fresh: int = 1
    """How many."""
    seed: int = 0
    """Which."""


def test_an_option_of_the_users_own_is_no_habit() -> None:
    assert parse(Mine, ["--n_fresh", "3", "--seed", "4"], "kymograph run mine.py") == Mine(3, 4)
    with pytest.raises(KymographError, match="has no option '--skip_bp'"):
        parse(Mine, ["--skip_bp"], "kymograph run mine.py")


@pytest.mark.parametrize("script_flag", SCRIPT_FLAGS, ids=lambda script_flag: script_flag.flag)
def test_what_an_answer_names_exists(script_flag) -> None:
    name = script_flag.command.removeprefix("run ")
    if script_flag.command == "calibrate":
        return
    study = load_study(name)
    known = {arm.name for arm in study.arms()}
    for word in re.findall(r"[a-z]+/[\w/]+", script_flag.instead):
        assert word in known
    option = script_flag.instead.split()[0].removeprefix("--").replace("-", "_")
    assert option in {"arms", "dir", "seeds"} or hasattr(study.config_type, option)
