"""Completion of verbs, studies, options and settings, asked of the shells themselves."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from kymograph.cli.main import VERBS
from kymograph.cli.verbs.maintenance import SCRIPTS, vocabulary
from tests.cli.command import call

ASK = """
{script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _kymograph; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def bash_script() -> str:
    return SCRIPTS["bash"](vocabulary(), ["clipping", "depth"])


def completed(script: str, words: str) -> list[str]:
    """Returns what bash suggests for the last of the words."""
    asked = ASK.format(script=script, words=words)
    return subprocess.run(["bash", "-c", asked], text=True, capture_output=True, check=True).stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kymograph ju", {"judge"}),
        ("kymograph run de", {"depth"}),
        ("kymograph run depth --lay", {"--layers"}),
        ("kymograph run clipping --lay", set()),
        ("kymograph run depth --n-se", {"--n-seeds"}),
        ("kymograph run depth --no-sk", {"--no-skip"}),
        ("kymograph judge runs --wi", {"--wide"}),
        ("kymograph judge runs --dire", {"--direction"}),
    ],
)
def test_bash_completes_verbs_studies_options_and_settings(bash_script: str, words: str, expected: set[str]) -> None:
    assert set(completed(bash_script, words)) == expected


def test_every_verb_has_its_options_and_no_positional_is_one(bash_script: str) -> None:
    assert set(completed(bash_script, "kymograph ''")) >= set(VERBS.names())
    assert "--directories" not in vocabulary()["judge",] and "--help" in vocabulary()["judge",]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_command_prints_a_script_that_the_shell_can_read(shell: str, capsys: pytest.CaptureFixture) -> None:
    assert call("completion", shell) == 0
    script = capsys.readouterr().out
    assert "judge" in script and "layers" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_another_shell_is_refused(capsys: pytest.CaptureFixture) -> None:
    assert call("completion", "csh") != 0
    assert "there is no completion for the shell 'csh'" in capsys.readouterr().err
