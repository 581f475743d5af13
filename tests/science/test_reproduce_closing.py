"""How `kymograph reproduce` ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kymograph._claims.claim import MANIPULATION_CHECK
from kymograph._claims.verdict import Outcome, Verdict, Verdicts
from kymograph_studies.reproduce import closing_lines, next_commands, verdicts_to_show
from tests.pictures.report.pages import make_verdicts


def verdict(
    study: str, outcome: str, setup: str = "script", p: float | None = 0.01, kind: str | None = None
) -> Verdict:
    base = make_verdicts()[0]
    claim = replace(base.claim, name=f"{study} {outcome} {setup} {p}", study=study, kind=kind)
    return replace(base, claim=claim, outcome=Outcome(outcome), setup=setup, p=p)


def test_every_study_is_shown_before_a_second_verdict_of_one() -> None:
    given = [verdict("a", "REFUTED", p=p / 100) for p in range(1, 6)] + [verdict("b", "INVALID", p=None)]
    shown = verdicts_to_show(given, 3)
    assert [one.claim.study for one in shown] == ["a", "a", "b"] and shown[0].p == 0.01


def test_refuted_comes_first_then_the_scripts_own_set_up_then_the_smallest_p() -> None:
    given = [
        verdict("a", "SUPPORTED", p=0.001),
        verdict("a", "REFUTED", "repaired", p=0.001),
        verdict("a", "REFUTED", "script", p=0.02),
        verdict("a", "REFUTED", "script", p=0.01),
        verdict("a", "REFUTED", "script", p=0.0, kind=MANIPULATION_CHECK),
    ]
    assert [(str(one.outcome), one.setup, one.p) for one in verdicts_to_show(given)] == [
        ("REFUTED", "script", 0.01),
        ("REFUTED", "script", 0.02),
        ("REFUTED", "repaired", 0.001),
        ("SUPPORTED", "script", 0.001),
    ]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_it_fits_one_screen(width: int) -> None:
    name = "a claim whose name is so long that it does not fit into what is left of a line of eighty columns"
    verdicts = Verdicts(
        tuple(
            replace(one, claim=replace(one.claim, name=name), settings={"data": "digits", "epochs": 20, "log_every": 5})
            for one in make_verdicts()
        ),
        {},
    )
    files = {"Report": Path("runs/reproduce/report.html"), "All verdicts": Path("runs/reproduce/verdicts.md")}
    lines = "\n".join(closing_lines(verdicts, files, Path("runs/reproduce"), width)).splitlines()
    assert len(lines) <= 30 and max(map(len, lines)) <= width
    assert lines[0].startswith("5 claims: 1 SUPPORTED") and "All verdicts  runs/reproduce/verdicts.md" in lines


def test_a_shell_that_does_not_know_the_command_is_told_how(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "activate").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.prefix", str(tmp_path / ".venv"))
    monkeypatch.setenv("PATH", "")
    assert list(next_commands(Path("runs"), "depth")) == [
        "source .venv/bin/activate",
        "kymograph judge runs --study depth",
        "kymograph figure depth-differences --dir runs",
        "kymograph new study mine",
    ]


def test_a_repaired_or_transferred_claim_is_not_taken_for_the_scripts_own() -> None:
    """ "REFUTED the rare class is not learned" was shown without a word that this is the repaired set-up."""
    repaired = replace(verdict("a", "REFUTED", "repaired"), settings={})
    moved = replace(verdict("b", "SUPPORTED", "transfer"), settings={"data": "digits", "epochs": 20})
    lines = list(closing_lines(Verdicts((repaired, moved), {}), {"Report": Path("r.html")}, Path("runs"), 80))
    assert any(line.strip().startswith("a, repaired: +0.545") for line in lines)
    assert any(line.strip().startswith("b, transfer, data digits, epochs 20:") for line in lines)
