from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from kymograph._cli.main import VERBS
from kymograph._cli.verbs import maintenance as selftest
from kymograph._cli.verbs.maintenance import COMPLETIONS, options_type, verbs_of_studies, vocabulary
from kymograph._selftest.worlds import RateBound, Row
from tests.cli.command import call

ROW = Row("no effect", "10", 1000, 0.02, 0.03, 0.0, "a direction", 50, RateBound(most=0.05))
LIMIT = Row("skewed", "6", 1000, 0.2, 0.0, 0.0, "SUPPORTED", 200, RateBound(most=0.25), "limit")


@pytest.mark.parametrize(("count", "code", "word"), [(50, 0, "ok"), (90, 1, "FAILED")])
def test_a_row_beyond_its_bound_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, count: int, code: int, word: str
) -> None:
    def rows(worlds: int, seed: int, follow: Any) -> Iterator[Row]:
        assert (worlds, seed) == (500, 7) and list(follow(range(3), "title")) == [0, 1, 2]
        yield dataclasses.replace(ROW, count=count)
        yield LIMIT

    monkeypatch.setattr("kymograph._selftest.whole_path.selftest", rows)
    assert selftest.selftest_verb(["--worlds", "500", "--seed", "7"]) == code
    header, first, second, *summary = capsys.readouterr().out.splitlines()
    assert header.split() == [
        "world", "n", "worlds", "SUPPORTED", "REFUTED", "EQUIVALENT", "what", "is", "counted", "rate", "bound",
    ]  # fmt: skip
    assert first.startswith("no effect ") and first.endswith(f"at most 5 %                           {word}")
    assert " 1,000      2.0 %      3.0 %      0.0 %  a direction" in first and f"{count / 10:.1f} %" in first
    assert "at most 25 % (known limit)" in second
    assert summary[-2].startswith(f"{2 - code} of 2 rows are ok")
    assert summary[-1] == "worst: skewed, n = 6: 20.0 % false SUPPORTED (bound 25 %)"


ASK = """
{script}
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _kymograph; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def bash_script() -> str:
    return COMPLETIONS["bash"](vocabulary(), ["clipping", "depth"])


def completed(script: str, words: str) -> list[str]:
    """Returns what bash suggests for the last of the words."""
    asked = ASK.format(script=script, words=words)
    return subprocess.run(["bash", "-c", asked], text=True, capture_output=True, check=True).stdout.split()


@pytest.mark.science
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
    for verb in VERBS.names():
        kind = options_type(verb)
        assert dataclasses.is_dataclass(kind) and kind.__name__ == f"{verb.title()}Options"
    assert set(completed(bash_script, "kymograph ''")) >= set(VERBS.names())
    assert "--directories" not in vocabulary()["judge",] and "--help" in vocabulary()["judge",]


@pytest.mark.science
def test_studies_are_completed_where_the_usage_asks_for_one() -> None:
    assert verbs_of_studies() == ["run", "studies", "variance"]


@pytest.mark.science
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
