from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kymograph._claims.verdict import Verdicts, effect_text, why_text
from kymograph._pictures.verdict_table import TABLE_WIDTH, print_verdicts, summary_lines
from kymograph._wording import PIPE_WIDTH, folded
from tests.pictures.report.pages import make_verdicts


def long_verdicts() -> Verdicts:
    """Returns verdicts of all kinds with names, reasons and settings that fit no line."""
    reason = "the effect is real but uncertain against the margin of 0.16 (p = 0.0371 against zero, 0.0527 against it)"
    return Verdicts(
        tuple(
            replace(
                one,
                claim=replace(
                    one.claim, name=f"{one.claim.name} as the script has it, with every layer and all of them"
                ),
                reason=f"{one.reason}; {reason}; 1,234 seeds needed for 80 % power to support it",
                settings={"data": "digits", "epochs": 20, "optimizer.weight_decay": 0.0001, "log_every": 5},
                setup="repaired",
                effect=None if one.effect is None else -1.23456e-11,
                interval=None if one.effect is None else (-1.23456e-11, 9.8765e-12),
            )
            for one in make_verdicts()
        ),
        ("a", "b"),
        ("c",),
    )


@pytest.mark.parametrize("width", [40, 80, 100, 120, None])
def test_cards_fit_any_width_and_nothing_is_cut_or_broken(
    width: int | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table used to lose its last columns at 80 columns, and to ignore COLUMNS in a pipe."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if width is not None:
        monkeypatch.setenv("COLUMNS", str(width))
    verdicts = long_verdicts()
    print_verdicts(verdicts)
    lines = capsys.readouterr().out.split("\n")
    assert max(map(len, lines)) <= max(width or PIPE_WIDTH, 52), "nor is a number broken to fit a very narrow line"
    text = re.sub(r"\s+", " ", " ".join(lines))
    for verdict in verdicts:
        assert f"{verdict.outcome} {verdict.claim.name}" in text
        assert why_text(verdict) in text and f"n {verdict.n}" in text
        assert any(effect_text(verdict) in line for line in lines), "an effect and its interval are on one line"
    assert text.count("set-up: repaired, data digits, epochs 20, optimizer.weight_decay 0.0001, log_every 5") == 5
    assert "5 claims: 1 SUPPORTED" in text and "not judged: c" in text and "…" not in text


def test_the_wide_table_has_every_column_whatever_the_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_verdicts(long_verdicts(), wide=True)
    out = capsys.readouterr().out
    assert max(map(len, out.split("\n"))) <= TABLE_WIDTH and "…" not in out
    for name in ("claim", "origin", "verdict", "effect [95 % interval]", " p ", " n ", "why"):
        assert name in out
    assert out.count("-1.23e-11 [-1.23e-11, +9.88e-12]") + out.count("×-1.23e-11") == 4


def test_lines_are_broken_at_spaces_only_and_never_before_a_per_cent_sign() -> None:
    assert folded("for 80 % power", 7) == "for\n80 %\npower"
    assert folded("x" * 30, 10) == "x" * 30
    assert folded("", 10, "  ") == ""


@pytest.mark.parametrize(
    ("never_run", "said"),
    [
        ((), "no claim was judged"),
        (("a",), "no claim was judged: arms of the only claim were never run"),
        (("a", "b"), "no claim was judged: arms of all 2 claims were never run"),
    ],
)
def test_no_verdict_at_all_is_said_in_words(never_run: tuple[str, ...], said: str) -> None:
    """It used to be "0 claims: ; 2 more were not judged"."""
    assert list(summary_lines(Verdicts((), never_run))) == [said]


def test_checks_without_claims_are_counted() -> None:
    check = replace(make_verdicts()[0], claim=replace(make_verdicts()[0].claim, kind="manipulation check"))
    (line,) = summary_lines(Verdicts((check,), ("a",)))
    assert line.startswith("no claim was judged; ") and "1 more was not judged, because its arms" in line
    assert ": ;" not in line
