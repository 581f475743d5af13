"""Recording any loop."""

from __future__ import annotations

import cProfile
import datetime
import enum
import errno
import math
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

import kymograph as ky
from kymograph._claims.claim_files import read_claims
from kymograph._claims.registration import register
from kymograph._errors import KymographError
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
    register(tmp_path / "runs", read_claims(tmp_path / "claims.toml"))
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
        ({"net": object()}, r"the setting net is <object object at .*> \(object\), which cannot be stored"),
        ({"a": {"b": {1, 2}}}, r"the setting a\.b is \{1, 2\} \(set\)"),
        ({"x": math.nan}, "the setting x is nan"),
        ({"x": [1.0, math.inf]}, "the setting x is inf"),
        ({"sizes": [[1]]}, r"the setting sizes is \[1\] \(list\), which cannot be stored"),
        ({1: 2}, "the name of a setting"),
        ({"n": 10**400}, "the setting n is an integer of 401 digits, and at most 300 are stored"),
        ({"n": [1, -(10**300)]}, "the setting n is an integer of 301 digits"),
        ({"z": 1 + 2j}, r"the setting z is \(1\+2j\) \(complex\)"),
        ({"day": datetime.date(2026, 1, 2)}, r"the setting day is datetime\.date\(2026, 1, 2\) \(date\)"),
        ({"path": "a\udc80"}, r"the setting path is 'a\\udc80', whose lone surrogate cannot be stored"),
        ({"a\udc80": 1}, "the name of a setting is 'a.udc80', whose lone surrogate"),
        ({"a": {"b": 1}, "a.b": 2}, r"two settings are called 'a\.b', one of them nested"),
        ({"a.b": {"c": 2}, "a": {"b.c": 2}}, r"two settings are called 'a\.b\.c'"),
        ({"optimizer": {}}, "the setting optimizer is an empty dictionary, which would be lost"),
        ({"optimizer": {"sgd": {}}}, r"the setting optimizer\.sgd is an empty dictionary"),
    ],
)
def test_settings_that_cannot_be_stored_are_refused(tmp_path: Path, config: dict[Any, Any], words: str) -> None:
    with pytest.raises(KymographError, match=words) as error:
        ky.record("mine", arm="a", seed=1, config=config, out=tmp_path)
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir()), "nothing was written"


@pytest.mark.parametrize("where", ["study", "arm", "question", "headlines"])
def test_names_that_cannot_be_stored_are_refused(tmp_path: Path, where: str) -> None:
    text = "a\udc80"
    options: dict[str, Any] = {"study": "mine", "arm": "a", where: {"x": text} if where == "headlines" else text}
    with pytest.raises(KymographError, match="lone surrogate"):
        ky.record(**options, seed=1, out=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_summary_that_cannot_be_stored_is_refused_when_it_is_set(tmp_path: Path) -> None:
    weight = torch.zeros(())
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        for value, words in (
            (10**400, r"run\.summary\['x'\] is an integer of 401 digits"),
            ("a\udc80", r"run\.summary\['x'\] is 'a\\udc80', whose lone surrogate"),
            (1j, r"is 1j \(complex\)"),
            (torch.tensor(1j), r"is 1j \(complex\)"),
            (datetime.date(2026, 1, 2), r"\(date\)"),
            (np.datetime64("2026-01-02T00:00:00", "ns"), r"\(datetime64\)"),
            ([1.0], r"is \[1\.0\] \(list\)"),
            ("Infinity", "is the string 'Infinity', which is read back as a number"),
        ):
            for setting in (
                lambda value: run.summary.__setitem__("x", value),
                lambda value: run.summary(y=1.0, x=value),
                lambda value: run.summary.update(y=1.0, x=value),
                lambda value: run.summary.setdefault("x", value),
                lambda value: run.summary.__ior__({"y": 1.0, "x": value}),
            ):
                with pytest.raises(KymographError, match=words):
                    setting(value)
        with pytest.raises(KymographError, match="has 1 as the name of a number"):
            run.summary[1] = 2.0  # type: ignore[index]
        assert not run.summary, "nothing of a refused call is kept"
        run.summary["weight"] = weight
        weight += 1
    (stored,) = ky.Store.open(tmp_path).finished
    assert stored.summary == {"weight": 0.0}, "as it was when it was set"


def test_what_is_logged_must_be_numbers_that_are_read_back(tmp_path: Path) -> None:
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        run.log(sites={"a": 1.0}, step=0)
        for value, words in (
            ("text", r"y is 'text' \(str\); log numbers"),
            (None, "y is None"),
            (torch.ones(2, 2), "y has 2 axes"),
            ({"a": torch.ones(2)}, "a site of y has 2 numbers"),
            ({"a": [1, 2]}, r"y is \[1, 2\] \(list\)"),
            ({1: 1.0, "1": 2.0}, "y has two sites called '1'"),
            ({"a\udc80": 1.0}, "a site of y is 'a.udc80'"),
            (10**400, "y is an integer of 401 digits, which is not exactly a float64"),
            (2**53 + 1, "y is 9007199254740993, which is not exactly a float64"),
            (np.array([1, 2**53 + 1]), "y is 9007199254740993"),
            (torch.tensor(2**53 + 1), "y is 9007199254740993"),
            (1j, r"y is 1j \(complex\)"),
            (np.complex64(1j), r"\(complex64\)"),
            (torch.tensor(1j), "y is complex"),
            (np.datetime64("2026-01-02"), r"\(datetime64"),
            (np.array(["1.5"]), r"\(<U3\)"),
            (np.longdouble(1) / 3, "not exactly a float64"),
        ):
            with pytest.raises(KymographError, match=words) as error:
                run.log(x=1.0, y=value, step=1)
            assert "\n" not in str(error.value)
        with pytest.raises(KymographError, match="sites was logged with other sites before"):
            run.log(x=1.0, sites={"b": 1.0}, step=1)
        with pytest.raises(KymographError, match="a series is called 1; names are strings"):
            run.log({1: 1.0}, step=1)  # type: ignore[dict-item]
        with pytest.raises(KymographError, match="x is logged twice in one call"):
            run.log({"x": 1.0}, x=2.0)
    (stored,) = ky.Store.open(tmp_path).finished
    assert set(stored.series) == {"sites"}, "nothing of a refused call is kept"


def test_an_array_that_is_changed_in_place_is_logged_as_it_was(tmp_path: Path) -> None:
    """The values of up to 512 steps were those of the last one."""
    norms = np.zeros(2)
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        for step in run.steps(3):
            norms[:] = step
            run.log(norms=norms)
    (stored,) = ky.Store.open(tmp_path).finished
    assert stored.series["norms"].value[:, 0].tolist() == [0.0, 1.0, 2.0]


def test_numbers_of_several_types_at_the_sites_of_a_series_keep_every_digit(tmp_path: Path) -> None:
    """Stacked as float32, the integer lost its last digit."""
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        run.log(x={"a": torch.tensor(2**24 + 1), "b": torch.tensor(0.5)})
    (stored,) = ky.Store.open(tmp_path).finished
    assert stored.series["x"].value.tolist() == [[2.0**24 + 1, 0.5]]


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


def test_series_of_one_name_are_all_kept_with_a_note(tmp_path: Path) -> None:
    """What was logged, and the numbers of a first network, used to be overwritten by those of a second."""
    networks = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
    with ky.record("pair", arm="a", seed=1, out=tmp_path) as run:
        for network in networks:
            run.watch(network, level="light")
        for _ in run.steps(3):
            run.log(output_norm=7.0)
            for network in networks:
                network(torch.ones(1, 2))
    (stored,) = ky.Store.open(tmp_path)
    assert {"output_norm", "output_norm (2)", "output_norm (3)", "weight_norm", "weight_norm (2)"} <= set(stored.series)
    assert stored.series["output_norm"].value.tolist() == [7.0] * 3, "what was logged"
    assert "several series are called output_norm; a later one is stored as output_norm (2)" in stored.notes
    norms = [float(parameters_to_vector(network.parameters()).detach().norm()) for network in networks]
    found = [stored.series[name].value[0] for name in ("weight_norm", "weight_norm (2)")]
    assert [float(values.reshape(-1)[0]) for values in found] == pytest.approx(norms)


def test_a_program_may_change_its_directory_between_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed, (here, out) in enumerate([(".", "runs"), ("inside", "../runs"), (".", "runs"), ("inside", "runs")]):
        (tmp_path / here).mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / here)
        ky.record("mine", arm="a", seed=seed, out=out).finish()
    assert [run.seed for run in ky.Store.open(tmp_path / "runs")] == [0, 1, 2]
    assert [run.seed for run in ky.Store.open(tmp_path / "inside" / "runs")] == [3]


def test_a_record_that_cannot_be_replaced_is_not_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a full disk the earlier record stayed, and nothing was said."""
    with ky.record("mine", arm="a", seed=1, out=tmp_path) as run:
        run.summary(loss=1.0)

    def full(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        run = ky.record("mine", arm="a", seed=1, out=tmp_path, if_exists="replace")
        run.summary(loss=2.0)
        patch.setattr(Path, "write_bytes", full)
        with pytest.raises(KymographError, match="No space left"):
            run.finish()
    assert ky.Store.open(tmp_path)[0].summary["loss"] == 1.0


def test_a_loop_may_change_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with ky.record("mine", arm="a", seed=1, out="runs") as run:
        monkeypatch.chdir(tmp_path / "elsewhere")
        run.summary(loss=1.0)
    assert len(ky.Store.open(tmp_path / "runs")) == 1 and not list((tmp_path / "elsewhere").iterdir())


def test_an_enumeration_of_strings_is_stored_as_its_value(tmp_path: Path) -> None:
    class Optimizer(str, enum.Enum):  # noqa: UP042, as many users write it
        SGD = "sgd"

    ky.record("mine", arm="a", seed=1, config={"optimizer": Optimizer.SGD}, out=tmp_path).finish()
    assert ky.Store.open(tmp_path)[0].config["optimizer"] == "sgd"


def test_a_late_run_of_a_process_costs_as_many_calls_as_an_early_one(tmp_path: Path) -> None:
    def calls(seeds: range) -> int:
        profile = cProfile.Profile()
        with profile:
            for seed in seeds:
                loop(tmp_path, "only", seed)
        return sum(entry.callcount for entry in profile.getstats())

    loop(tmp_path, "only", 0)  # imports and caches
    early = calls(range(1, 6))
    for seed in range(6, 60):
        loop(tmp_path, "only", seed)
    assert calls(range(60, 65)) <= 1.02 * early  # a file more or less that another process happens to write
