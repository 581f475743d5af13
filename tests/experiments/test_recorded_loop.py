"""Recording any loop."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kymograph as ky
from kymograph._claims.claim_files import read_claims
from kymograph._claims.registration import register_claims
from kymograph._errors import KymographError
from kymograph._experiments.recorded_loop import flat_settings
from kymograph._pictures.live.reading import read_state
from kymograph._sharing.verify import verify
from tests.cli.command import call

CLAIM = """
[[claim]]
name = "high is higher"
study = "mine"
arm = "high"
against = "low"
summary = "x"
direction = "greater"
margin = 0.5
"""


def loop(out: Path, arm: str, seed: int, **options: Any) -> None:
    with ky.record(
        "mine", arm=arm, seed=seed, config={"optimizer": {"lr": 0.1}, "arm": arm}, out=out, **options
    ) as run:
        noise = torch.randn((), generator=run.generator("noise"))
        for step in run.steps(5):
            run.log(x=noise + step, layers={"first": step, "second": 2.0 * step})
        run.summary["x"] = float(noise) + (2.0 if arm == "high" else 0.0)


def test_arms_and_seeds_add_up_and_are_judged(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(CLAIM)
    register_claims(tmp_path / "runs", read_claims(tmp_path / "claims.toml"))
    for seed in ky.fixed_seeds(10):
        for arm in ("low", "high"):
            loop(tmp_path / "runs", arm, seed)
    (verdict,) = ky.judge(tmp_path / "runs", tmp_path / "claims.toml")
    assert verdict.outcome == "INVALID" and "the same number" in verdict.reason, "the seed does the same to both arms"
    store = ky.Store.open(tmp_path / "runs")
    assert len(store.finished) == 20 and all(one.holds for one in verify(tmp_path / "runs"))
    run = next(iter(store.finished))
    assert run.config == {"optimizer.lr": 0.1, "arm": "low"} and run.series["layers"].sites == ("first", "second")
    assert np.array_equal(run.series["layers"].value[:, 1], 2.0 * np.arange(5))


def test_every_view_works_on_recorded_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arm in ("low", "high"):
        for seed in (1, 2):
            loop(tmp_path / "runs", arm, seed, headlines={"x": "the number"})
    assert call("report", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html")) == 0
    assert "the number" in (tmp_path / "page.html").read_text()
    assert call("figure", "mine-curves", "--dir", str(tmp_path / "runs"), "-o", str(tmp_path / "figures")) == 0
    assert list((tmp_path / "figures").glob("*.png"))
    assert call("export", str(tmp_path / "runs"), "--to", "csv", "--output", str(tmp_path / "runs.csv")) == 0


def test_a_run_that_is_abandoned_is_missing(tmp_path: Path) -> None:
    loop(tmp_path, "low", 1)
    with pytest.raises(KeyboardInterrupt), ky.record("mine", arm="low", seed=2, out=tmp_path):
        raise KeyboardInterrupt
    assert any("1 has not ended" in str(one) for one in verify(tmp_path) if not one.holds)


def test_a_recorded_loop_is_watched_step_by_step_with_its_numbers(tmp_path: Path, monkeypatch: Any) -> None:
    """It used to be shown as one step of one, and without any number, until it had ended."""
    from kymograph._experiments import active_run

    monkeypatch.setattr(active_run, "TICK_EVERY", -1.0)
    seen = []
    with ky.record("mine", arm="low", seed=1, out=tmp_path) as run:
        for step in run.steps(4):
            run.log(loss=1 / (step + 1), layers={"first": 1.0})
            run._heart._beat()
            (process,) = read_state(tmp_path, time.time()).studies[0].processes
            seen.append((process.done, process.steps, process.message))
    assert seen == [(0, 4, ""), (1, 4, "loss 1"), (2, 4, "loss 0.5"), (3, 4, "loss 0.333")]
    with ky.record("mine", arm="low", seed=2, out=tmp_path) as run:
        for _ in run.steps(iter(range(2))):
            run.say("in my own words")
            run._heart._beat()
            (process,) = read_state(tmp_path, time.time()).studies[0].processes
    assert (process.done, process.steps, process.message) == (1, 0, "in my own words")


def test_a_failing_run_keeps_its_traceback(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), ky.record("mine", arm="low", seed=2, out=tmp_path):
        _ = 1 / 0
    (run,) = ky.Store.open(tmp_path).failed
    assert run.failure == "it failed: ZeroDivisionError: division by zero" and "1 / 0" in (run.traceback or "")


def test_a_recorded_run_is_not_overwritten_unawares(tmp_path: Path) -> None:
    loop(tmp_path, "low", 1)
    with pytest.raises(KymographError, match="is already recorded"):
        loop(tmp_path, "low", 1)
    loop(tmp_path, "low", 1, if_exists="replace")
    loop(tmp_path, "low", 1, if_exists="replace")
    assert len(ky.Store.open(tmp_path).runs) == 1
    assert any("1 run was recorded again" in str(one) for one in verify(tmp_path))
    (tmp_path / "claims.toml").write_text(CLAIM.replace('against = "low"', "against = 0.0").replace('"high"', '"low"'))
    (verdict,) = ky.judge(tmp_path, tmp_path / "claims.toml")
    assert verdict.registration == "post hoc: 1 run was recorded again"


def test_without_a_with_block_the_end_is_told(tmp_path: Path) -> None:
    run = ky.record("mine", arm="low", seed=1, out=tmp_path)
    for value in (1.0, 2.0, 3.0):
        run.log(x=value)
    run.finish()
    with pytest.raises(KymographError, match="has already ended"):
        run.finish()
    (stored,) = ky.Store.open(tmp_path).finished
    assert stored.series["x"].value.tolist() == [1.0, 2.0, 3.0] and stored.series["x"].step.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"net": object()}, "the setting net is a object"),
        ({"a": {"b": {1, 2}}}, r"the setting a\.b is a set"),
        ({"x": math.nan}, "the setting x is nan"),
        ({"sizes": [[1]]}, "the setting sizes cannot be stored"),
        ({1: 2}, "the name of a setting"),
    ],
)
def test_settings_that_cannot_be_stored_are_refused(config: dict[Any, Any], words: str) -> None:
    with pytest.raises(KymographError, match=words):
        flat_settings(config)


def test_what_is_logged_must_be_numbers_once_per_step(tmp_path: Path) -> None:
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        for step in run.steps(2):
            run.log(x=step)
            with pytest.raises(KymographError, match="logged twice at step"):
                run.log(x=step)
            with pytest.raises(KymographError, match="log numbers"):
                run.log(y="text")
            with pytest.raises(KymographError, match="2 axes"):
                run.log(z=torch.ones(2, 2))
            with pytest.raises(KymographError, match="other sites"):
                run.log(sites={"a": 1.0})
                run.log(step=step + 10, sites={"b": 1.0})


def test_what_a_watched_network_cannot_say_is_noted(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        run.watch(net, level=["attention_entropy", "output_norm"])
        for _ in run.steps(2):
            net(torch.ones(1, 2)).sum().backward()
    (stored,) = ky.Store.open(tmp_path).finished
    assert stored.series["output_norm"].sites == ("0", "1")
    assert "attention_entropy is not measured: no nn.MultiheadAttention" in stored.provenance["notes"][0]


@pytest.mark.science
def test_a_registered_study_keeps_its_name(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="is a registered study"):
        ky.record("depth", arm="plain", seed=1, out=tmp_path)


def test_a_finished_run_can_be_gone_past(tmp_path: Path) -> None:
    for attempt in range(2):
        for seed in (1, 2):
            with ky.record("mine", arm="a", seed=seed, out=tmp_path, if_exists="skip") as run:
                assert run.exists is (attempt == 1)
                for step in run.steps(3):
                    assert attempt == 0
                    run.log({"x": step})
                run.summary(x=float(attempt))
    store = ky.Store.open(tmp_path)
    assert [run.summary["x"] for run in store.finished] == [0.0, 0.0]
    ky.record("mine", arm="a", seed=1, out=tmp_path, if_exists="skip").finish()
    assert all(one.holds for one in verify(tmp_path)), "nothing was logged or written"
    with pytest.raises(KymographError, match="if_exists='skip'"):
        ky.record("mine", arm="a", seed=1, out=tmp_path)


def test_a_seed_that_is_not_registered_is_pointed_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "claims.toml").write_text(CLAIM)
    assert call("register", str(tmp_path / "claims.toml"), "--dir", str(tmp_path / "runs")) == 0
    assert "seeds: 42 123 456 " in capsys.readouterr().out
    loop(tmp_path / "runs", "low", 42)
    assert "decides nothing" not in capsys.readouterr().err
    for seed in (7, 8, 9):
        loop(tmp_path / "runs", "low", seed)
    said = capsys.readouterr().err
    assert "note: seed 7 decides nothing: the claims about mine are registered for 42, 123" in said
    assert said.count("decides nothing") == 1, "once per directory, not once per run"


def test_numbers_are_logged_by_name(tmp_path: Path) -> None:
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        run.log({"x": 1.0}, y=2.0, step=5)
        with pytest.raises(KymographError, match="by name"):
            run.log(3)  # type: ignore[arg-type]
    (one,) = ky.Store.open(tmp_path).finished
    assert one.series["x"].step.tolist() == [5] and one.series["y"].value.tolist() == [2.0]
