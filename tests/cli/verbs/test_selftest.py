from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from kymograph.cli.verbs import maintenance as selftest
from kymograph.selftest.worlds import RateBound, Row

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

    monkeypatch.setattr("kymograph.selftest.whole_path.selftest", rows)
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
