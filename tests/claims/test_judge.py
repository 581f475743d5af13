"""Judging a directory of runs: what was dropped, edited, changed or registered too late shows in every verdict."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import random
import shutil
import subprocess
import sys
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import kymograph
from kymograph._claims.claim_files import read_claims
from kymograph._claims.judge import judge
from kymograph._claims.registration import register, register_study
from kymograph._claims.verdict import Outcome, Verdict, Verdicts
from kymograph._runs import locating
from kymograph._runs.directory import Directory
from kymograph._runs.log import Log
from kymograph._runs.record import RunResult
from kymograph._runs.spec import RunSpec
from kymograph._runs.store import Store
from kymograph._streams import fixed_seeds
from kymograph._studies.loading import load_study
from tests.cli.command import call
from tests.records import write_record
from tests.studies import spiky
from tests.studies.spiky import ARMS, RARE, REFERENCE, SPIKES

OWN = """
[[claim]]
name = "the largest gradient is larger without clipping"
study = "spiky"
arm = "easy/no_clip"
against = "easy/clip"
summary = "peak"
direction = "greater"
scale = "log ratio"
margin = 1.5
"""

DIVERGING = """
[[claim]]
name = "the wild arm ends higher"
study = "own"
arm = "wild"
against = "calm"
summary = "final_loss"
direction = "greater"
margin = 0.1
"""


def run(out: Path, seeds: int = 10, **more: Any) -> Store:
    options = {"arms": ARMS[:2], "n_seeds": seeds, "quiet": True, "engine": "serial", **more}
    return kymograph.run(REFERENCE, out=out, **options)


def judged(runs: Path, **options: Any) -> Verdicts:
    """Returns the verdicts on the claims in the study's code."""
    return judge(runs, studies=[spiky.Spiky()], **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten seeds of the two arms of the easy task."""
    out = tmp_path_factory.mktemp("judged")
    run(out)
    return out


@pytest.fixture
def runs(finished: Path, tmp_path: Path) -> Path:
    """A copy that a test may spoil."""
    return Path(shutil.copytree(finished, tmp_path / "runs"))


def by_name(verdicts: Verdicts) -> Mapping[str, Verdict]:
    return {verdict.claim.name: verdict for verdict in verdicts}


def test_a_directory_is_judged_on_the_claims_registered_with_it(finished: Path) -> None:
    verdicts = judge(finished)
    found = by_name(verdicts)
    assert len(verdicts) == 3 and len(verdicts.never_run) == 1, "the arms of the hard task were never run"
    assert found[SPIKES].outcome is Outcome.SUPPORTED
    assert found[RARE].outcome is Outcome.INVALID and "the rare class can be learned" in found[RARE].reason
    assert {verdict.registration for verdict in verdicts} == {"registered"}
    assert "SUPPORTED" in verdicts._repr_html_() and verdicts.markdown().count("\n") == 5


def test_a_store_is_judged_as_it_is(finished: Path) -> None:
    store = Store.open(finished)
    assert by_name(judge(store))[SPIKES].outcome is Outcome.SUPPORTED
    few = store.select(seeds=store.seeds[:5])
    assert all(verdict.outcome is Outcome.INVALID for verdict in judge(few))


def test_a_dropped_seed_shows(runs: Path) -> None:
    shutil.rmtree(next((runs / "spiky").glob("easy__no_clip-s42-*")))
    verdict = by_name(judge(runs))[SPIKES]
    assert verdict.outcome is Outcome.INVALID and "1 of 10 planned runs" in verdict.reason and "42" in verdict.reason


def test_an_arm_that_was_deleted_whole_shows(runs: Path) -> None:
    for directory in (runs / "spiky").glob("easy__*"):
        shutil.rmtree(directory)
    assert "10 of 10 planned runs" in by_name(judge(runs))[SPIKES].reason


def test_an_edited_record_shows(runs: Path) -> None:
    path = next((runs / "spiky").glob("easy__no_clip-s42-*")) / "summary.json"
    path.write_text(path.read_text().replace('"peak": ', '"peak": 1'))
    verdict = by_name(judge(runs))[SPIKES]
    assert verdict.outcome is Outcome.INVALID and "seed 42" in verdict.reason and "edited" in verdict.reason
    assert by_name(judge(runs))["clipping fires"].outcome is Outcome.SUPPORTED, "other arms are judged as before"


def test_a_margin_changed_after_the_runs_shows(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [dataclasses.replace(claim, margin=claim.margin * 2) for claim in spiky.claims()]
    monkeypatch.setattr(spiky, "claims", lambda: changed)
    verdict = by_name(judged(runs))[SPIKES]
    assert verdict.registration == "changed after runs existed (margin)"
    # Running again does not paper over it.
    register_study(Log.read(runs), spiky.Spiky(), fixed_seeds(10), {})
    assert by_name(judged(runs))[SPIKES].registration == "changed after runs existed (margin)"
    assert "changed after runs existed" in json.dumps(judged(runs).rows())


def test_a_failed_run_shows(tmp_path: Path) -> None:
    run(tmp_path, lr=100.0)
    verdicts = judge(tmp_path)
    assert verdicts and all(verdict.outcome is Outcome.INVALID for verdict in verdicts)
    assert "it failed: RuntimeError: the learning rate is too large" in by_name(verdicts)[SPIKES].reason


def test_a_diverged_run_shows(tmp_path: Path) -> None:
    run(tmp_path, lr=2.0)
    verdict = by_name(judge(tmp_path))[SPIKES]
    assert verdict.outcome is Outcome.INVALID and verdict.reason.endswith("is not finite at seed 42: it diverged")


def test_the_step_of_a_divergence_is_named(tmp_path: Path) -> None:
    """It used to be "missing", because the loop of a user does not say whether its numbers are finite."""
    for seed in range(8):
        for arm in ("calm", "wild"):
            with kymograph.record("own", arm=arm, seed=seed, out=tmp_path / "runs") as recorded:
                for step in recorded.steps(20):
                    recorded.log(loss=math.nan if (arm, seed) == ("wild", 2) and step >= 13 else seed + len(arm) * step)
                recorded.summary["final_loss"] = math.nan if (arm, seed) == ("wild", 2) else seed + random.random()
    claims = tmp_path / "claims.toml"
    claims.write_text(DIVERGING)
    (verdict,) = judge(tmp_path / "runs", claims)
    assert verdict.reason == "final loss (wild) is not finite at seed 2: it diverged at step 13"
    claims.write_text(f'{DIVERGING}diverged = "drop"\n')
    (verdict,) = judge(tmp_path / "runs", claims)
    assert verdict.n == 7 and verdict.notes[0] == "seeds 2 (at step 13) diverged and were left out, as declared"


def test_claims_of_ones_own_are_post_hoc_unless_registered_before(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(OWN)
    (verdict,) = judge(finished, path)
    assert verdict.outcome is Outcome.SUPPORTED and verdict.registration == "post hoc"
    fresh = tmp_path / "fresh"
    register(fresh, read_claims(path), settings={"lr": 0.2}, studies=[load_study(REFERENCE)])
    run(fresh, lr=0.2)
    assert judge(fresh, path)[0].registration == "registered"
    register(fresh, read_claims(path))
    path.write_text(OWN.replace("1.5", "1.6"))
    register(fresh, read_claims(path))
    assert judge(fresh, path)[0].registration == "changed after runs existed (margin)"


def test_the_verb_prints_cards_or_one_table_and_writes_files(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    claims, rows, table = tmp_path / "claims.toml", tmp_path / "v.json", tmp_path / "v.md"
    claims.write_text(OWN)
    assert call("judge", str(finished), "--json", str(rows), "--markdown", str(table)) == 0
    out = capsys.readouterr().out
    for word in ("SUPPORTED     ", "INVALID       ", "set-up: ", "2 claims:"):
        assert word in out
    assert call("judge", str(finished), "--wide") == 0
    out = capsys.readouterr().out
    for word in ("claim", "origin", "verdict", "effect [95 % interval]", "SUPPORTED", "INVALID", "2 claims:"):
        assert word in out
    content = json.loads(rows.read_text())
    assert [set(row) >= {"claim", "study", "setup", "origin", "verdict", "reason", "effect", "interval", "p", "n"}
            for row in content] == [True] * 3  # fmt: skip
    assert table.read_text().startswith("| claim |")
    assert call("judge", str(finished), "--claims", str(claims)) == 0
    assert "post hoc" in capsys.readouterr().out
    assert call("register", str(claims), "--dir", str(tmp_path / "new")) == 0
    assert "registered: the largest" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("absent",), "there is no directory absent"),
        (("a", "b"), "judge one directory"),
        (("a", "--csv"), "compares two directories"),
    ],
)
def test_a_wrong_command_is_one_sentence(words: tuple[str, ...], error: str, capsys: pytest.CaptureFixture) -> None:
    assert call("judge", *words) == (1 if words == ("absent",) else 2)
    assert error in capsys.readouterr().err


def test_runs_are_judged_without_torch(finished: Path) -> None:
    code = f"""
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ImportError("there is no torch")
sys.meta_path.insert(0, NoTorch())
from kymograph._cli.main import main
main(["judge", {str(finished)!r}])
"""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 0 and "2 claims" in done.stdout, done.stderr


def test_a_study_that_cannot_be_read_has_no_verdict_but_invalid(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its runs used to vanish from the verdicts without a word; root, whom no permission stops, may run the tests."""
    real = os.scandir

    def denied(path: Any = ".") -> Any:
        if str(path) == str(runs / "spiky"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(locating.os, "scandir", denied)
    verdicts = judge(runs)
    assert len(verdicts) > 0 and {verdict.outcome for verdict in verdicts} == {Outcome.INVALID}
    assert all("cannot read spiky: Permission denied" in verdict.reason for verdict in verdicts)


def test_a_claim_that_was_taken_out_of_the_code_is_still_judged(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [claim for claim in spiky.claims() if claim.name != SPIKES]
    monkeypatch.setattr(spiky, "claims", lambda: others)
    verdict = by_name(judged(runs))[SPIKES]
    assert verdict.outcome is Outcome.SUPPORTED and verdict.registration == "registered, and no longer claimed"


def test_the_claims_of_a_study_whose_code_is_not_here_are_judged_as_registered(runs: Path) -> None:
    before, after = judged(runs), judge(runs)
    assert sorted(v.claim.hash for v in after) == sorted(v.claim.hash for v in before)
    assert {v.registration for v in after} == {"registered"}


def test_every_view_tells_that_a_claim_was_changed(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [dataclasses.replace(claim, margin=claim.margin * 2) for claim in spiky.claims()]
    monkeypatch.setattr(spiky, "claims", lambda: changed)
    verdicts = judged(runs)
    for view in (verdicts.markdown(), verdicts._repr_html_()):
        assert "changed after runs existed (margin)" in view


def test_a_store_without_a_planned_seed_says_so(finished: Path) -> None:
    store = Store.open(finished)
    verdict = by_name(judge(store.select(seeds=[seed for seed in store.seeds if seed != 42])))[SPIKES]
    assert verdict.n == 9 and "planned and not among these runs: seed 42" in verdict.notes


def test_other_settings_in_the_directory_are_told_apart(tmp_path: Path) -> None:
    for lr in (0.1, 0.2):
        run(tmp_path, lr=lr)
    found = by_name(judge(tmp_path))[SPIKES]
    assert "they differ in lr: choose with --where" in by_name(judge(tmp_path, where={"n_rare": 6}))[SPIKES].reason
    assert found.registration == "registered" and "10 runs with another lr than registered were not used" in found.notes
    run(tmp_path, 1, arms=ARMS[:1], lr=2.0)
    chosen = by_name(judge(tmp_path, where={"lr": 0.1}))[SPIKES]
    assert chosen.outcome is Outcome.SUPPORTED and chosen.n == 10, "what failed with other settings does not matter"
    assert chosen.registration == "registered" and "narrowed with --where lr=0.1" in chosen.notes
    other = by_name(judge(tmp_path, where={"lr": 0.2}))[SPIKES]
    assert other.registration == "post hoc: other settings than registered (lr 0.2 instead of 0.1)"
    assert call("judge", str(tmp_path), "--where", "lrr=1") == 1


def test_an_own_claim_that_no_run_fits_is_named(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    path = tmp_path / "claims.toml"
    path.write_text(OWN + OWN.replace('study = "spiky"', 'study = "spikey"').replace("the largest", "another"))
    assert call("judge", str(finished), "--claims", str(path)) == 0
    assert "not judged: another gradient is larger without clipping" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    assert call("judge", str(tmp_path / "empty")) == 1
    assert "contains no runs" in capsys.readouterr().err


def test_planning_says_what_the_seeds_cannot_decide(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ["run", REFERENCE, "--arms", *ARMS[:2], "--engine", "serial", "--dir", str(tmp_path)]
    assert call(*words, "--seeds", "1", "2") == 0
    assert "2 seeds are too few for a verdict" in capsys.readouterr().err
    assert call(*words, "--n-seeds", "6") == 0
    assert "6 seeds cannot decide the 2 claims of spiky:" in capsys.readouterr().err


class CountedEntries(dict[str, Any]):
    """The entries of a log by hash; counts how many of them are walked over."""

    walked = 0

    def __iter__(self) -> Iterator[str]:
        for name in super().__iter__():
            self.walked += 1
            yield name

    def keys(self) -> Any:
        return KeysView(self)

    def values(self) -> Any:
        return ValuesView(self)

    def items(self) -> Any:
        return ItemsView(self)


class CountedOrder(list[Any]):
    """The entries of a log in order; counts how many of them are walked over."""

    walked = 0

    def __iter__(self) -> Iterator[Any]:
        self.walked += len(self)
        return super().__iter__()

    def __getitem__(self, index: Any) -> Any:
        chosen = super().__getitem__(index)
        self.walked += len(chosen) if isinstance(index, slice) else 1
        return chosen


def steps_to_judge(root: Path, seeds: int) -> tuple[int, int]:
    """Returns how many entries of the log are walked over, and how many of our functions are called, to judge runs.

    Each run is recorded: it has its own entry in the log, and its own heads.
    """
    claim = read_claims(_file(root / "claims.toml", OWN.replace("spiky", "mine")))
    directory = Directory(root / "runs")
    register(directory, claim, seeds=range(seeds))
    for seed in range(seeds):
        for arm in ARMS[:2]:
            spec = RunSpec("mine", arm, seed, {"lr": 0.1}, 1, "source")
            directory.plan([spec])
            result = RunResult({}, {"peak": 2.0 + seed / 7 if arm.endswith("no_clip") else 1.0})
            write_record(directory.root, spec, result, {"log": list(directory.log.heads)}, 0.0)
    read = Directory(directory.root).checked()
    read.log.entries, read.log.order = entries, order = CountedEntries(read.log.entries), CountedOrder(read.log.order)
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        path = frame.f_code.co_filename
        calls += event in ("call", "c_call") and ("/_claims/" in path or "/_runs/" in path)

    sys.setprofile(count)
    try:
        (verdict,) = judge(read, claim)
    finally:
        sys.setprofile(None)
    assert verdict.outcome is Outcome.SUPPORTED and verdict.n == seeds and verdict.registration == "registered"
    return entries.walked + order.walked, calls


def _file(path: Path, content: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    return path


def test_judging_twice_as_many_recorded_runs_takes_twice_as_many_steps(tmp_path: Path) -> None:
    """Every run used to be compared with a new set of all entries of the log."""
    few, many = steps_to_judge(tmp_path / "few", 10), steps_to_judge(tmp_path / "many", 20)
    assert all(later < 2.2 * earlier for earlier, later in zip(few, many, strict=True)), (few, many)
