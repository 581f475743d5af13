from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch

from benchmarks import compare, naive, probing, watching
from benchmarks import epochs as snapshot
from kymograph.errors import KymographError


def test_ratios_are_repeat_by_repeat_and_shown_with_their_spread() -> None:
    comparison = compare.Comparison("work", "s", lambda: 1.0, lambda: 1.0, "5x")
    timing = compare.Timing("x", comparison, (10.0, 12.0, 30.0), (1.0, 2.0, 3.0), (0.5, 1.0, 1.0))
    assert timing.ratios == [10, 6, 10]
    table = compare.render([timing])
    assert "| work | 12 s | 2 s | 10x (6-10) | 20x (12-30) | 2x (2-3) | 5x |" in table and "3 repeats" in table


def test_the_bench_times_both_ways_in_turn_and_writes_what_it_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    calls = []

    def timed(name: str) -> float:
        calls.append(name)
        return 2.0 if name == "script" else 1.0

    fake = compare.Comparison("w", "s", lambda: timed("script"), lambda: timed("ours"), "2x")
    monkeypatch.setattr(compare, "comparisons", lambda: {"w": fake})
    assert compare.bench([], 2, str(tmp_path / "bench.md")) == 0
    assert calls == ["script", "ours", "script", "ours"], "interleaved"
    table = capsys.readouterr().out.strip()
    assert table in (tmp_path / "bench.md").read_text()
    with pytest.raises(KymographError, match="no directory"):
        compare.bench([], 1, str(tmp_path / "absent" / "x.md"))


def test_the_naive_depth_is_the_scripts() -> None:
    losses = naive.depth_seed(42, steps=2)
    assert losses["residual"][0] > 1e6 > 10 > losses["plain"][0]


def test_the_scripts_pictures_are_cropped_and_normalised_like_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    task = snapshot.ImageTask(
        "few",
        torch.full((4, 3, 32, 32), 255, dtype=torch.uint8),
        torch.zeros(4, dtype=torch.long),
        torch.zeros(1, 3, 32, 32, dtype=torch.uint8),
        torch.zeros(1, dtype=torch.long),
        snapshot.MEAN,
        snapshot.STD,
        10,
        True,
    )
    monkeypatch.setattr(torch, "randint", lambda *_, **__: torch.tensor([4]))  # no shift
    picture, _ = snapshot.ScriptDataset(task)[0]
    expected = snapshot.Batches(task, 4).normalise(task.train[:1])[0]
    torch.testing.assert_close(picture, expected, atol=1e-5, rtol=0)


def test_a_watched_loop_learns_the_same_bits_and_reads_every_layer_at_every_step() -> None:
    _, plain, nothing = watching.train(watched=False, steps=3)
    _, watched, readings = watching.train(watched=True, steps=3)
    assert all(torch.equal(a, b) for a, b in zip(plain, watched, strict=True))
    assert nothing.numel() == 0 and readings.shape == (3, 2 * (watching.DEPTH + 1))
    assert bool((readings > 0).all()) and len(readings.unique(dim=0)) == 3


@pytest.mark.parametrize("way", ["recording", "light", "standard", "deep"])
def test_a_probed_loop_learns_the_same_bits_as_the_plain_one(way: str) -> None:
    with ExitStack() as ending:
        (plain, bare), (probed, net) = probing.training("plain", ending), probing.training(way, ending)
        for step in range(3):
            plain(step)
            probed(step)
    assert all(torch.equal(a, b) for a, b in zip(bare.parameters(), net.parameters(), strict=True))
    assert 95_000 < sum(parameter.numel() for parameter in net.parameters()) < 105_000


def test_the_probes_loops_go_in_turns_and_a_limit_can_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    threads = torch.get_num_threads()
    plain, probed = probing.ratio("light", steps=2, rounds=2)
    assert plain > 0 and probed > 0 and torch.get_num_threads() == threads

    def with_times(*times: tuple[float, float]) -> dict[str, compare.Comparison]:
        found = iter(times)
        together = compare.Comparison("w", "s", float, float, "", together=lambda: next(found), most=1.1)
        return {"w": together}

    monkeypatch.setattr(compare, "comparisons", lambda: with_times((1.0, 1.3), (1.0, 1.09)))
    assert compare.bench([], 2) == 0, "the least of the repeats counts"
    monkeypatch.setattr(compare, "comparisons", lambda: with_times((1.0, 1.3), (1.0, 1.2)))
    assert compare.bench([], 2) == 1
    assert "w takes 1.20 times as long as the loop without it, above the limit of 1.10" in capsys.readouterr().err


def test_a_process_that_dies_is_told_in_a_sentence() -> None:
    silent = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE, text=True)
    with silent, pytest.raises(KymographError, match="a process of the comparison stopped"):
        snapshot._wait_for_line([silent])


@pytest.mark.slow
def test_an_epoch_in_a_sweep_is_about_an_epoch_on_one_thread_divided_by_the_cores() -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = snapshot.our_epoch("dfa")
    torch.set_num_threads(before)
    together = snapshot.sweep_epoch("dfa") * (os.cpu_count() or 1)
    assert alone / 2 < together < alone * 5, "start-up is not in it, sharing a machine is"
