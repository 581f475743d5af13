"""Tuned arms from the first run to the verdict, and what a user could do to the choice."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import kymograph as ky
from kymograph._claims.registration import register
from kymograph._claims.tuning import CHOICE, logged_choices
from kymograph._errors import KymographError
from kymograph._experiments import running, stages
from kymograph._experiments.running import run_sweep
from kymograph._experiments.stages import ComputeOptions
from kymograph._runs.directory import Directory
from kymograph._runs.log import Log
from kymograph._sharing.verify import verify
from kymograph._sweep.heartbeat import RUNNING
from tests.cli.command import call
from tests.pictures.live.stage import beat, dead_process
from tests.studies.bowl import REFERENCE, RULE, Bowl

ALL = ["slow", "fast", "edge", "broken"]


def run(out: Path, arms: list[str] | None = None, **options: Any) -> ky.Store:
    return ky.run(REFERENCE, n_seeds=10, out=out, quiet=True, arms=arms, depth=1.0, **{"engine": "serial", **options})


def verdicts(out: Path) -> dict[str, Any]:
    return {verdict.claim.left.arm: verdict for verdict in ky.judge(out)}


def wrong(out: Path) -> list[str]:
    return [str(finding) for finding in verify(out) if not finding.holds]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tuned")
    run(out, ALL)
    return out


@pytest.fixture
def copy(tuned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tuned, tmp_path / "copy"))


def test_every_arm_runs_at_its_best_value_and_tuning_seeds_take_no_part(tuned: Path) -> None:
    store = ky.Store.open(tuned).select("bowl")
    assert {(one.arm, one.config["rate"]) for one in store} == {("slow", 0.03), ("fast", 0.1), ("edge", 0.3)}
    found = verdicts(tuned)["fast"]
    assert (found.outcome, found.n, found.registration) == ("SUPPORTED", 10, "registered")
    assert not {point.seed for point in found.points} & set(RULE.tuning_seeds)
    assert "rate tuned on separate seeds: fast 0.1, slow 0.03" in found.notes
    assert found.row()["registered"]["tuned"]["fast"] == RULE.to_json(), "the rule is registered, and not the value"
    assert wrong(tuned) == []


def test_a_best_value_at_the_edge_or_none_at_all_is_invalid(tuned: Path) -> None:
    found = verdicts(tuned)
    assert found["edge"].outcome == "INVALID"
    assert found["edge"].reason == "the best rate of edge, 0.3, is the largest of its grid; extend the grid"
    assert found["broken"].outcome == "INVALID" and "no rate could be chosen for broken" in found["broken"].reason


def test_the_choice_is_logged_after_the_tuning_and_before_the_evaluation(tuned: Path) -> None:
    history = Log.read(tuned)
    assert [entry.kind for entry in history.entries.values()] == ["registration", "sweep", CHOICE, "sweep"]
    (choice,) = history.of_kind(CHOICE)
    for one in ky.Store.open(tuned):
        assert (choice.hash in history.up_to(one.log_heads or ())) == (one.study == "bowl")


def test_it_goes_on_after_a_kill_at_any_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*args: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stages, "log_choices", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
    assert logged_choices(Log.read(tmp_path), "bowl") == []
    done = run_sweep(
        REFERENCE, ky.fixed_seeds(10), ComputeOptions(tmp_path, "serial", quiet=True), fields={"depth": 1.0}
    )
    assert done.tuning is not None and (done.tuning.computed, done.tuning.found) == (0, 16) and done.computed == 20
    shutil.rmtree(next(iter(done.store)).directory)
    again = run_sweep(
        REFERENCE, ky.fixed_seeds(10), ComputeOptions(tmp_path, "serial", quiet=True), fields={"depth": 1.0}
    )
    assert again.computed == 1 and len(Log.read(tmp_path).of_kind(CHOICE)) == 1
    assert wrong(tmp_path) == [] and verdicts(tmp_path)["fast"].outcome == "SUPPORTED"


def test_more_arms_and_seeds_can_follow(tmp_path: Path) -> None:
    run(tmp_path, ["slow"])
    run(tmp_path, ["fast"])
    ky.run(REFERENCE, n_seeds=12, out=tmp_path, quiet=True, engine="serial", depth=1.0)
    found = verdicts(tmp_path)["fast"]
    assert (found.outcome, found.n, found.registration) == ("SUPPORTED", 10, "registered") and wrong(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes"])
def test_the_tuning_runs_of_all_arms_are_one_sweep_on_every_engine(tmp_path: Path, tuned: Path, engine: str) -> None:
    run(tmp_path, ALL, engine=engine, workers=2)
    sweeps = [entry for entry in Log.read(tmp_path).of_kind("sweep") if entry.content["study"] == "bowl.tuning"]
    assert len(sweeps) == 1
    here, there = ({one.id: one.summary for one in ky.Store.open(out)} for out in (tmp_path, tuned))
    assert here == there


def test_another_value_than_the_tuning_runs_say_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = stages.choose

    def dishonest(arm: str, *args: Any) -> Any:
        found = honest(arm, *args)
        return replace(found, value=0.01) if arm == "slow" else found

    monkeypatch.setattr(stages, "choose", dishonest)
    run(tmp_path)
    found = verdicts(tmp_path)["fast"]
    assert found.outcome == "INVALID" and found.reason == "rate 0.01 was chosen for slow, and its tuning runs say 0.03"
    assert any("the rate chosen for slow in bowl" in text for text in wrong(tmp_path))


def test_what_a_killed_tuning_left_is_removed_though_nothing_is_left_to_tune(copy: Path) -> None:
    """The beat of a sweep that was killed after its last tuning run used to stay."""
    tuning = ky.Store.open(copy).select("bowl.tuning")
    beat(copy, [tuning[0].spec], pid=dead_process())
    part = tuning[0].directory.with_name(f"{tuning[0].directory.name}.part")
    part.mkdir()
    assert list(copy.rglob(RUNNING))
    run(copy, ALL)
    assert not list(copy.rglob(RUNNING)) and not part.exists()


def test_deleting_the_tuning_run_that_won_is_noticed(copy: Path) -> None:
    won = [one for one in ky.Store.open(copy).select("bowl.tuning", ["slow"]) if one.config["rate"] == 0.03]
    shutil.rmtree(won[0].directory)
    found = verdicts(copy)["fast"]
    assert (found.outcome, found.reason) == ("INVALID", "1 of 8 tuning runs of slow are missing")
    assert any("1 of 8 tuning runs of slow are missing" in text for text in wrong(copy))


def test_editing_a_tuning_run_is_noticed(copy: Path) -> None:
    one = next(iter(ky.Store.open(copy).select("bowl.tuning", ["slow"])))
    summary = one.directory / "summary.json"
    summary.write_text(summary.read_text().replace('"loss"', '"lass"'))
    assert "a tuning run of slow does not count" in verdicts(copy)["fast"].reason


def test_deleting_all_tuning_runs_is_noticed(copy: Path) -> None:
    shutil.rmtree(copy / "bowl.tuning")
    assert verdicts(copy)["fast"].reason == "8 of 8 tuning runs of fast are missing"


def test_a_choice_that_is_logged_afterwards_does_not_replace_the_first(copy: Path) -> None:
    (old,) = Log.read(copy).of_kind(CHOICE)
    content = {**old.content, "choices": [{**one, "value": 0.01} for one in old.content["choices"]]}
    Log.read(copy).append(CHOICE, content)
    assert "was chosen for fast, and its tuning runs say 0.1" in verdicts(copy)["fast"].reason


def test_runs_from_before_the_choice_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluating first and logging a choice that fits afterwards is not tuning on other seeds."""

    def unlogged(*args: Any) -> Any:
        choices = tuple(stages.choose(arm, RULE, *_runs(tmp_path, arm)) for arm in ("slow", "fast"))
        return stages.TuningResult(choices=choices)

    stages.tune_arms(*_arguments(tmp_path), ComputeOptions(tmp_path, "serial", quiet=True))
    entries = Log.read(tmp_path).of_kind(CHOICE)
    assert len(entries) == 1
    # The same directory without the choice, evaluated, and with the choice put back at the end of the log.
    for path in (tmp_path / "log").iterdir():
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if f'"kind": "{CHOICE}"' not in line))
    monkeypatch.setattr(running, "tune_arms", unlogged)
    run(tmp_path)
    Log.read(tmp_path).append(CHOICE, entries[0].content)
    assert verdicts(tmp_path)["fast"].reason == "10 runs of fast started before its rate was chosen"


def _arguments(out: Path) -> tuple[Any, ...]:
    from kymograph._studies.loading import load_with_reference

    study, code = load_with_reference(REFERENCE)
    return Directory(out), study, code, dict.fromkeys(("slow", "fast"), RULE), ky.fixed_seeds(10), {"depth": 1.0}


def _runs(out: Path, arm: str) -> tuple[Any, Any]:
    runs = list(ky.Store.open(out).select("bowl.tuning", [arm]))
    return [one.spec for one in runs], {one.id: one for one in runs}


def test_tuning_on_the_seeds_of_the_evaluation_is_refused(tmp_path: Path) -> None:
    seed = RULE.tuning_seeds[0]
    with pytest.raises(KymographError, match=f"on seed {seed}, on which it is also evaluated"):
        ky.run(REFERENCE, seeds=[1, seed], out=tmp_path, quiet=True, engine="serial")
    with pytest.raises(KymographError, match="on which it is also evaluated"):
        register(tmp_path, Bowl().claims(), seeds=[seed], studies=[Bowl()])
    assert not list(tmp_path.iterdir())


def test_setting_or_varying_what_is_tuned_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="rate is tuned in the arm 'slow'; drop --rate"):
        run(tmp_path, rate=0.1)
    with pytest.raises(KymographError, match="rate is tuned in the arm 'slow'"):
        run(tmp_path, grid={"rate": [0.1, 0.3]})
    with pytest.raises(KymographError, match="drop --grid"):
        ky.run(REFERENCE, out=tmp_path, quiet=True, engine="serial", grid={"depth": [0.0, 1.0]})


def test_tuning_before_registering_is_post_hoc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks at tuning runs first, and then states the claim, has not predicted anything."""
    with monkeypatch.context() as patch:
        patch.setattr(stages, "register_study", lambda *args: None)
        stages.tune_arms(*_arguments(tmp_path), ComputeOptions(tmp_path, "serial", quiet=True))  # type: ignore[call-arg]
    run(tmp_path)
    assert verdicts(tmp_path)["fast"].registration.startswith("post hoc")


def test_rules_by_name_and_pattern_and_those_that_make_no_sense() -> None:
    def rules(tune_by: Any) -> dict[str, Any]:
        return type("Other", (Bowl,), {"tune": tune_by})().tuning()

    assert list(rules({"s*": RULE, "fast": RULE})) == ["slow", "fast"] and rules(None) == {}
    with pytest.raises(KymographError, match="bowl tunes shape, which the arm 'slow' sets itself"):
        rules(replace(RULE, setting="shape", grid=("slow", "fast")))
    with pytest.raises(KymographError, match="has no setting 'rat'"):
        rules(replace(RULE, setting="rat"))


def test_a_study_in_one_function_is_tuned_in_the_same_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "hill.py"
    file.write_text(HILL)
    assert call("run", str(file), "--n-seeds", "10", "--dir", str(tmp_path / "runs"), "--engine", "serial") == 0
    said = capsys.readouterr().out
    assert "tuning: 24 computed, 0 found, 0 failed" in said and "steep: lr 0.1 (highest mean score" in said
    assert call("judge", str(tmp_path / "runs")) == 0
    assert "SUPPORTED" in (text := capsys.readouterr().out) and "tuned on" in text
    assert call("verify", str(tmp_path / "runs"), "--rerun", "3", "--study", str(file)) == 0
    assert "the values chosen for hill" in capsys.readouterr().out
    assert call("report", str(tmp_path / "runs"), "-o", str(tmp_path / "page.html")) == 0
    page = (tmp_path / "page.html").read_text()
    assert "tuning chose the lr among 0.3, 0.1, 0.03, 0.01 by the highest mean score over 3 tuning seeds" in page
    store = ky.Store.open(tmp_path / "runs")
    figure = ky.figure("hill-tuning", store)
    chosen = {row[0]: row[2] for row in figure.rows if row[-1] is True}  # type: ignore[attr-defined]
    assert chosen == {"flat": 0.03, "steep": 0.1}


HILL = """
import math
import kymograph as ky

@ky.study(question="Which hill is higher?",
          arms={"flat": {"height": 1.0}, "steep": {"height": 3.0}},
          claims=[ky.Claim.compare("score", "steep", ">", "flat", scale="difference", margin=1.0)],
          tune=ky.Tuned("lr", (0.3, 0.1, 0.03, 0.01), by="score", best="highest"))
def hill_study(run: ky.ActiveRun, *, lr: float = 0.01, height: float = 1.0):
    best = 0.03 if height < 2 else 0.1
    noise = float(ky.generator(run.seed, run.arm).initial_seed() % 100) / 1000
    return {"score": height - (math.log(lr) - math.log(best)) ** 2 + noise}
"""


def test_names_of_tuning_runs_are_reserved(tmp_path: Path) -> None:
    with pytest.raises(KymographError, match="are reserved for tuning runs"):
        ky.record("mine.tuning", arm="a", seed=1, out=tmp_path)
