from __future__ import annotations

import sys
from pathlib import Path

import pytest
from benchmarks.compare import Comparison

from benchmarks import __main__ as command
from benchmarks import studies, watching
from kymograph._errors import KymographError


def run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    return command.main()


def test_rows_are_named_in_full_or_by_how_they_begin() -> None:
    rows = ["clipping-32", "clipping-1", "depth-10", "watching-mlp"]
    assert command.choose([], rows) == rows
    assert command.choose(["depth-10", "clipping", "clipping-1"], rows) == ["depth-10", "clipping-32", "clipping-1"]
    with pytest.raises(KymographError, match="there is no row 'cliping-32'; did you mean 'clipping-32'"):
        command.choose(["cliping-32"], rows)


def test_the_bench_times_both_ways_in_turn_and_writes_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    calls = []

    def timed(name: str) -> float:
        calls.append(name)
        return 2.0 if name == "script" else 1.0

    fake = Comparison("w", "s", lambda: timed("script"), lambda: timed("ours"), faster=2)
    monkeypatch.setattr(studies, "comparisons", lambda: {"w": fake})
    assert run(monkeypatch, "w", "--repeats", "2", "--markdown", str(tmp_path / "bench.md")) == 0
    assert calls == ["script", "ours", "script", "ours"], "interleaved"
    table = capsys.readouterr().out.strip()
    assert table in (tmp_path / "bench.md").read_text()
    with pytest.raises(KymographError, match="no directory"):
        command.bench(["w"], 1, str(tmp_path / "absent" / "x.md"))


def test_a_row_over_its_limit_fails_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    slow = Comparison("w", "s", lambda: 1.9, lambda: 1.0, faster=2)
    monkeypatch.setattr(studies, "comparisons", lambda: {"w": slow})
    assert run(monkeypatch, "w") == 1
    assert "w is 1.9 times faster, below the limit of 2" in capsys.readouterr().err
    costs = [watching.Cost("watching-x", "x", "light", 1.0, 1.2, 1.1)]
    monkeypatch.setattr(watching, "NETWORKS", {"watching-x": None})
    monkeypatch.setattr(watching, "measure", lambda name: costs)
    assert run(monkeypatch, "watching") == 1
    expected = "watching-x: light takes 1.200 times as long as the loop without it, above the limit of 1.10"
    assert expected in capsys.readouterr().err


def test_a_mistake_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as exit_:
        run(monkeypatch, "cliping-32")
    assert exit_.value.code == 2 and "did you mean 'clipping-32'" in capsys.readouterr().err


def test_every_limit_of_the_specification_is_held() -> None:
    rows = studies.comparisons()
    assert {name: row.faster for name, row in rows.items() if row.faster} == {
        "clipping-32": 100, "clipping-1": 5, "depth-10": 10, "snapshot-bp": 4, "snapshot-dfa": 5, "calibration": 100
    }  # fmt: skip
    assert (rows["snapshot-bp"].most_products, rows["snapshot-dfa"].most_products) == (1.5, 1.3)
    networks = {name: network.limits for name, network in watching.NETWORKS.items()}
    small = {"recording": 1.03, "light": 1.25, "standard": 1.40}
    assert {way: most for way, most in networks["watching-mlp"].items() if most} == small
    for name in ("watching-transformer", "watching-resnet"):
        assert networks[name] == {"hooks by hand": None, "light": 1.10, "standard": 1.20}
