from __future__ import annotations

import sys

import pytest

from benchmarks import rules
from kymograph_studies.rules import RULES


def test_every_rule_is_timed_and_one_that_takes_too_long_fails_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "biotorch", None)  # as if it were not installed
    monkeypatch.setattr(rules, "BATCH", 4)
    monkeypatch.setattr(rules, "STEPS", 1)
    monkeypatch.setattr(rules, "MOST", 1e9)
    assert rules.bench_rules(rounds=1) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in RULES.names()) and "BioTorch is not installed" in text
    monkeypatch.setattr(rules, "measure", lambda rounds: {"fa": [2e9], "BioTorch fa": [3e9]})
    assert rules.bench_rules(rounds=1) == 1
    text = capsys.readouterr().out
    assert text.count("over the limit") == 1 and "not installed" not in text
