"""What a user can do to a verdict, and the trace that it leaves."""

from __future__ import annotations

import hashlib
import inspect
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import kymograph
from kymograph._claims.claim_files import read_claims
from kymograph._claims.registration import register, registered_seeds
from kymograph._claims.verdict import Verdict
from kymograph._cli.verbs.judgement import abandon_runs, reinstate_runs
from kymograph._errors import KymographError
from kymograph._runs.directory import Directory
from kymograph._runs.history import History
from kymograph._runs.listing import named_runs
from kymograph._runs.log import DIRECTORY, Entry, Log
from kymograph._runs.record import write_failure
from kymograph._sharing.verify import all_hold, verify
from tests.studies.spiky import REFERENCE as SPIKY
from tests.studies.tossing import REFERENCE, Tossing, claim


def run(out: Path, seeds: int = 10, **fields: float) -> kymograph.Store:
    return kymograph.run(REFERENCE, n_seeds=seeds, out=out, quiet=True, engine="serial", **fields)


def verdict(out: Path) -> Verdict:
    (found,) = kymograph.judge(out, studies=[Tossing()])
    return found


def wrong(out: Path) -> list[str]:
    return [finding.what for finding in verify(out) if not finding.holds]


def test_an_honest_directory_is_registered_and_verifies(tmp_path: Path) -> None:
    run(tmp_path, shift=3.0)
    found = verdict(tmp_path)
    assert (found.outcome, found.n, found.registration) == ("SUPPORTED", 10, "registered")
    registered = found.row()["registered"]
    assert len(registered["seeds"]) == 10 and all_hold(verify(tmp_path, anchor=registered["digest"][:16]))
    assert wrong(tmp_path) == []


def test_judging_one_of_many_registered_claims_keeps_the_correction(tmp_path: Path) -> None:
    """Registering twelve claims and judging a file with one of them used to shrink p from .375 to .031."""
    many = "".join(CLAIMS.replace("much larger", f"larger by {number}") for number in range(12))
    (tmp_path / "many.toml").write_text(many)
    (tmp_path / "one.toml").write_text(CLAIMS.replace("much larger", "larger by 3"))
    register(tmp_path / "runs", read_claims(tmp_path / "many.toml"))
    run(tmp_path / "runs", shift=4.0)
    every = {v.claim.name: v for v in kymograph.judge(tmp_path / "runs", tmp_path / "many.toml")}
    (alone,) = kymograph.judge(tmp_path / "runs", tmp_path / "one.toml")
    assert alone.family_size == every["tails is larger by 3"].family_size == 13, "the study's own claim counts too"
    assert alone.p is not None and alone.p_flip is not None and alone.p >= 13 * min(alone.p_flip, 2 / 2**10) - 1e-12
    assert any("12 more registered claims share the level" in note for note in alone.notes)


def test_a_family_that_the_seeds_cannot_decide_is_refused(tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text("".join(CLAIMS.replace("much larger", f"larger by {n}") for n in range(26)))
    with pytest.raises(KymographError, match="10 seeds cannot decide the 26 claims of tossing together"):
        register(tmp_path / "runs", read_claims(tmp_path / "many.toml"))
    assert register(tmp_path / "runs", read_claims(tmp_path / "many.toml"), seeds=list(range(12)))


@pytest.mark.parametrize("how", ["alone", "with the log"])
def test_deleting_the_worst_seeds_makes_the_verdict_invalid(tmp_path: Path, how: str) -> None:
    """6 of 14 seeds deleted used to turn INCONCLUSIVE into SUPPORTED."""
    store = run(tmp_path, shift=0.5)
    values = {seed: run_.summary["x"] for seed, run_ in zip(store.seeds, store.select(arms=["tails"]), strict=True)}
    worst = sorted(values, key=lambda seed: values[seed])[:3]
    for one in store:
        if one.seed in worst:
            shutil.rmtree(one.directory)
    if how == "with the log":
        shutil.rmtree(tmp_path / DIRECTORY)
    found = verdict(tmp_path)
    assert found.outcome == "INVALID", found.reason
    assert any(word in found.reason for word in ("log that", "missing")), found.reason
    assert wrong(tmp_path)


def test_registering_after_the_runs_is_post_hoc_wherever_they_were_meanwhile(tmp_path: Path) -> None:
    """Runs that were moved away during `register` and moved back used to count as registered."""
    run(tmp_path / "first", shift=3.0)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    shutil.move(tmp_path / "first" / "tossing", tmp_path / "aside")
    register(tmp_path / "first", read_claims(tmp_path / "claims.toml"))
    shutil.move(tmp_path / "aside", tmp_path / "first" / "tossing")
    found = {v.claim.name: v for v in kymograph.judge(tmp_path / "first", tmp_path / "claims.toml")}
    assert found["tails is much larger"].registration == "post hoc"


def test_runs_brought_into_a_directory_with_a_registration_of_its_own_do_not_fit_its_log(tmp_path: Path) -> None:
    run(tmp_path / "made", shift=3.0)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    register(tmp_path / "new", read_claims(tmp_path / "claims.toml"))
    shutil.copytree(tmp_path / "made" / "tossing", tmp_path / "new" / "tossing")
    (found,) = kymograph.judge(tmp_path / "new", tmp_path / "claims.toml")
    assert found.outcome == "INVALID" and "the log that" in found.reason
    assert "the runs' log entries" in wrong(tmp_path / "new")


CLAIMS = """
[[claim]]
name = "tails is much larger"
study = "tossing"
arm = "tails"
against = "heads"
summary = "x"
direction = "greater"
margin = 1.0
"""


def test_adding_seeds_until_it_is_significant_changes_nothing(tmp_path: Path) -> None:
    """Looking at every n from 6 to 20 used to give 16.7 % false verdicts."""
    run(tmp_path, seeds=6)
    early = verdict(tmp_path)
    assert early.registration == "registered, interim: 6 of 10 registered seeds" and early.n == 6
    run(tmp_path, seeds=10)
    whole = verdict(tmp_path)
    assert whole.registration == "registered" and whole.n == 10
    run(tmp_path, seeds=20)
    later = verdict(tmp_path)
    assert (later.n, later.effect, later.p) == (10, whole.effect, whole.p)
    assert any("10 seeds beyond the registered ones were not used" in note for note in later.notes)


def test_a_pilot_is_an_interim_look_and_not_a_new_design(tmp_path: Path) -> None:
    kymograph.run(REFERENCE, seeds=[7, 8, 9], out=tmp_path, quiet=True, engine="serial")
    assert "interim: 3 of 10" in verdict(tmp_path).registration
    assert registered_seeds([7, 8, 9])[:5] == (7, 8, 9, 42, 123) and len(registered_seeds(range(20))) == 20


def test_editing_what_is_stored_beside_the_runs_shows(tmp_path: Path) -> None:
    run(tmp_path, shift=3.0)
    path = tmp_path / "tossing" / "study.json"
    content = json.loads(path.read_text())
    content["arms"][0]["treatment"]["shift"] = 0.0
    path.write_text(json.dumps(content))
    assert verdict(tmp_path).outcome == "INVALID" and "changed since it was logged" in verdict(tmp_path).reason
    assert wrong(tmp_path)


def test_a_run_that_does_not_say_what_came_before_it_makes_its_claim_post_hoc(tmp_path: Path) -> None:
    first = run(tmp_path, shift=3.0).finished.runs[0]
    _reseal(first.directory, "config.json", lambda content: content["provenance"].pop("log"))
    assert verdict(tmp_path).registration == "post hoc"
    (result,) = [result for result in verify(tmp_path) if not result.holds]
    assert str(result) == "WRONG  the runs' log entries: 1 run does not name the entries that came before"


def test_an_edited_entry_of_the_log_shows_everywhere(tmp_path: Path) -> None:
    run(tmp_path, shift=3.0)
    (segment,) = (tmp_path / DIRECTORY).glob("*.jsonl")
    segment.write_text(segment.read_text().replace('"margin": 0.0', '"margin": 1.0'))
    assert verdict(tmp_path).outcome == "INVALID" and "edited" in verdict(tmp_path).reason
    assert "the log" in wrong(tmp_path)


@pytest.mark.parametrize("entry", [
    ("sweep", {"study": "tossing", "version": 1, "source": None, "declaration": None, "runs": "none"}),
    ("sweep", {"study": "tossing", "version": 1, "source": None, "declaration": None,
               "runs": [{"arm": "tails", "config": {}, "seeds": ["1"]}]}),
    ("abandoned", {"runs": "all of them", "reason": "they were bad"}),
    ("choice", {"study": "tossing", "choices": [{"arm": "tails"}]}),
    ("registration", {"study": ["tossing"], "claims": 5}),
    ("sweeping", {}),
], ids=["sweep without runs", "sweep of no seed", "abandoned", "choice", "registration", "unknown kind"])  # fmt: skip
def test_a_forged_entry_that_says_nothing_is_named(tmp_path: Path, entry: tuple[str, dict]) -> None:
    """Its hash fits, and nothing that reads the log uses it: it used to be left out without a word."""
    run(tmp_path, shift=3.0)
    forged = Log.read(tmp_path).append(*entry).hash[:16]
    (found,) = [finding for finding in verify(tmp_path) if finding.what == "the log"]
    assert not found.holds and forged in found.detail
    assert verdict(tmp_path).outcome == "INVALID" and forged in verdict(tmp_path).reason


def test_abandoning_runs_is_logged_and_makes_the_claim_post_hoc(tmp_path: Path) -> None:
    store = run(tmp_path, shift=3.0)
    with pytest.raises(KymographError, match="say why"):
        abandon_runs(tmp_path, "  ", seeds=[42], finished=True)
    assert abandon_runs(tmp_path, "the disk broke", seeds=[42], finished=True) == (2, 0)
    assert abandon_runs(tmp_path, "the disk broke", seeds=[42], finished=True) == (0, 0)
    for one in store.select(seeds=[42]):
        shutil.rmtree(one.directory)
    found = verdict(tmp_path)
    assert found.outcome == "SUPPORTED" and found.n == 9
    assert found.registration.startswith("post hoc: 2 planned runs were abandoned (the disk broke)")


def test_only_runs_without_results_are_abandoned_unless_asked(tmp_path: Path) -> None:
    """Without a selection, every finished run used to be given up for good."""
    store = run(tmp_path, shift=3.0)
    for words in ({}, {"seeds": [42]}, {"arms": ["tails"]}, {"where": {"shift": 3.0}}):
        with pytest.raises(KymographError, match="all with results; to give them up, add --finished"):
            abandon_runs(tmp_path, "by mistake", **words)
    assert not Log.read(tmp_path).of_kind("abandoned") and verdict(tmp_path).n == 10
    shutil.rmtree(store.select(arms=["tails"], seeds=[42]).runs[0].directory)
    failed, damaged = store.select(arms=["tails"], seeds=[123, 456])
    shutil.rmtree(failed.directory)
    write_failure(tmp_path, failed.spec, "RuntimeError: cursed", {"log": list(failed.log_heads)})
    (damaged.directory / "arrays.safetensors").write_bytes(b"")
    assert abandon_runs(tmp_path, "the disk broke", seeds=[42, 123, 456]) == (3, 3), "missing, failed and damaged"
    assert set(History(Log.read(tmp_path)).abandoned) == {one.id for one in store.select(arms=["tails"]).runs[:3]}
    (entry,) = Log.read(tmp_path).of_kind("abandoned")
    assert entry.content["finished"] == []
    assert {one.status for one in named_runs(Directory(tmp_path).checked())} == {"finished", "abandoned"}


def test_abandoning_looking_and_taking_back_is_no_way_to_pick_runs(tmp_path: Path) -> None:
    run(tmp_path, shift=3.0)
    assert verdict(tmp_path).registration == "registered"
    with pytest.raises(KymographError, match="no abandoned run"):
        reinstate_runs(tmp_path, "nothing to take back")
    abandon_runs(tmp_path, "they were bad", seeds=[42, 123], finished=True)
    assert verdict(tmp_path).n == 8
    with pytest.raises(KymographError, match="say why the runs are taken back"):
        reinstate_runs(tmp_path, " ", seeds=[42])
    assert reinstate_runs(tmp_path, "worse without", seeds=[42]) == 2
    found = verdict(tmp_path)
    assert found.n == 9 and found.registration.startswith(
        "post hoc: 2 planned runs were abandoned (they were bad); "
        "2 planned runs were abandoned (they were bad) and taken back (worse without) when results may have been seen"
    )
    assert reinstate_runs(tmp_path, "by mistake") == 2
    found = verdict(tmp_path)
    assert found.n == 10 and found.registration.startswith(
        "post hoc: 4 planned runs were abandoned (they were bad) and"
    )
    assert wrong(tmp_path) == []
    assert any("4 planned runs were abandoned (they were bad) and taken back (" in line for line in _noted(tmp_path))
    abandon_runs(tmp_path, "again", seeds=[42], finished=True)
    assert verdict(tmp_path).n == 9 and len(History(Log.read(tmp_path)).abandoned) == 2, "the last word counts"


def test_runs_that_had_no_results_when_they_were_taken_back_stay_registered(tmp_path: Path) -> None:
    store = run(tmp_path, shift=3.0)
    for one in store.select(seeds=[42]):
        shutil.rmtree(one.directory)
    abandon_runs(tmp_path, "the disk broke")
    reinstate_runs(tmp_path, "it was repaired")
    assert "missing" in verdict(tmp_path).reason
    run(tmp_path, shift=3.0)
    found = verdict(tmp_path)
    assert (found.outcome, found.n, found.registration) == ("SUPPORTED", 10, "registered")
    assert "2 planned runs were abandoned (the disk broke) and taken back (it was repaired)" in found.notes


def test_runs_computed_while_they_were_abandoned_may_have_been_seen(tmp_path: Path) -> None:
    store = run(tmp_path, shift=3.0)
    for one in store.select(seeds=[42]):
        shutil.rmtree(one.directory)
    abandon_runs(tmp_path, "the disk broke")
    run(tmp_path, shift=3.0)
    reinstate_runs(tmp_path, "they look good")
    assert verdict(tmp_path).registration.startswith(
        "post hoc: 2 planned runs were abandoned (the disk broke) and taken"
    )


def test_an_abandonment_of_an_earlier_version_may_have_hidden_results(tmp_path: Path) -> None:
    store = run(tmp_path, shift=3.0)
    lost = store.select(seeds=[42]).runs
    Log.read(tmp_path).append("abandoned", {"runs": [one.id for one in lost], "reason": "all of them"})
    for one in lost:
        shutil.rmtree(one.directory)
    reinstate_runs(tmp_path, "by mistake")
    run(tmp_path, shift=3.0)
    assert verdict(tmp_path).registration.startswith("post hoc: 2 planned runs were abandoned (all of them) and taken")


def test_what_two_processes_wrote_at_the_same_time_leaves_a_run_abandoned() -> None:
    def entry(kind: str, *parents: Entry) -> Entry:
        return Entry(kind, {"runs": ["a"], "reason": kind}, tuple(one.hash for one in parents), "now", "me")

    first = entry("abandoned")
    back = entry("reinstated", first)
    beside = entry("abandoned", first)
    after = entry("abandoned", back)

    def history(*entries: Entry) -> History:
        return History(Log(entries=entries))

    assert history(first, back).abandoned == {} and set(history(first, back).reinstated) == {"a"}
    for again in (beside, after):
        both = history(first, back, again)
        assert both.abandoned == {"a": "abandoned"} and both.reinstated == {}
    assert history(entry("reinstated"), first).abandoned == {"a": "abandoned"}, "it takes back what came before it"
    assert history(back).abandoned == history(back).reinstated == {}


def test_a_published_digest_must_be_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(CLAIMS)
    (registration,) = register(tmp_path / "runs", read_claims(tmp_path / "claims.toml"))
    run(tmp_path / "runs")
    assert all(one.holds for one in verify(tmp_path / "runs", anchor=registration.short_digest))
    assert not all(one.holds for one in verify(tmp_path / "runs", anchor="0123456789abcdef"))


def test_runs_computed_again_are_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path)

    def again(count: int, *studies: kymograph.Study) -> list[tuple[bool, str]]:
        results = verify(tmp_path, rerun=count, studies=studies, seed=1)
        return [(result.holds, result.detail) for result in results if "computed again" in result.what]

    study = _loaded()
    assert again(3, study) == [(True, "the same bits")] * 3
    ((holds, detail),) = again(1)
    assert not holds and "its study's code is not here" in detail
    tossed = type(study).toss

    def off_by_a_millionth(tossing: Tossing, spec: kymograph.RunSpec) -> kymograph.RunResult:
        result = tossed(tossing, spec)
        return replace(result, summary={"x": result.summary["x"] + 1e-6})

    monkeypatch.setattr(type(study), "toss", off_by_a_millionth)
    for holds, detail in again(3, study):
        assert not holds and "must be bit-identical on the same machine and versions" in detail


def _loaded() -> kymograph.Study:
    return kymograph.load_study(REFERENCE)


def test_settings_chosen_after_the_fact_show_everywhere(tmp_path: Path) -> None:
    """Runs at two rates, both "registered" with the same hash, used to give whichever verdict one liked."""
    run(tmp_path, shift=0.2)
    run(tmp_path, shift=3.0)
    found = verdict(tmp_path)
    assert found.registration == "registered" and found.settings == {"shift": 0.2}
    assert "10 runs with another shift than registered were not used" in found.notes
    (other,) = kymograph.judge(tmp_path, where={"shift": 3.0}, studies=[Tossing()])
    assert other.outcome == "SUPPORTED" and "narrowed with --where shift=3.0" in other.notes
    assert other.registration == "post hoc: other settings than registered (shift 3.0 instead of 0.2)"
    assert "20 runs of tossing have other settings than registered" in map(str.strip, _noted(tmp_path))


def test_runs_with_other_settings_than_a_registered_file_are_post_hoc(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(CLAIMS)
    register(tmp_path / "runs", read_claims(tmp_path / "claims.toml"), settings={"shift": 3.0}, studies=[Tossing()])
    run(tmp_path / "runs", shift=4.0)
    (found,) = kymograph.judge(tmp_path / "runs", tmp_path / "claims.toml")
    assert found.registration == "post hoc: other settings than registered (shift 4.0 instead of 3.0)"
    run(tmp_path / "runs", shift=3.0)
    (found,) = kymograph.judge(tmp_path / "runs", tmp_path / "claims.toml")
    assert found.registration == "registered" and found.settings == {"shift": 3.0}


def test_seeds_looks_and_settings_are_registered_once(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(CLAIMS)
    register(tmp_path / "runs", read_claims(tmp_path / "claims.toml"), settings={"shift": 3.0})
    for other in ({"settings": {"shift": 1.0}}, {"looks": (6, 12)}, {"seeds": [1, 2]}):
        with pytest.raises(KymographError, match="register in another directory"):
            register(tmp_path / "runs", read_claims(tmp_path / "claims.toml"), **other)
    with pytest.raises(KymographError, match="listed twice"):
        register(tmp_path / "other", read_claims(tmp_path / "claims.toml"), [1, 1, 1])


def test_a_sweep_with_unregistered_settings_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for shift in (0.0, 2.0):
        kymograph.run(REFERENCE, seeds=[1], out=tmp_path, shift=shift)
    assert "not registered for shift 2.0 (registered: 0.0)" in capsys.readouterr().err


def test_a_registration_slipped_into_the_log_decides_nothing(tmp_path: Path) -> None:
    """With the log moved away, a second root of it could choose the seeds after they were seen."""
    store = run(tmp_path, seeds=30, shift=0.3)
    before = verdict(tmp_path)
    values = {seed: [one.summary["x"] for one in store.select(seeds=[seed])] for seed in store.seeds}
    best = sorted(values, key=lambda seed: values[seed][0] - values[seed][1])[:16]
    (tmp_path / "log").rename(tmp_path / "away")
    for margin in range(8):  # by chance, some of them sort before the true one
        register(tmp_path, [claim("tails is larger", float(margin))], best)
    for segment in (tmp_path / "away").iterdir():
        segment.rename(tmp_path / "log" / f"old-{segment.name}")
    after = verdict(tmp_path)
    assert (after.n, after.effect) == (before.n, before.effect)
    assert after.p is not None and before.p is not None and after.p >= before.p
    assert any("were registered after its runs" in line for line in _noted(tmp_path)), verify(tmp_path)


@pytest.mark.parametrize("how", ["deleted", "failed"])
def test_registering_late_and_computing_again_stays_post_hoc(tmp_path: Path, how: str) -> None:
    store = run(tmp_path, shift=1.5)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    register(tmp_path, read_claims(tmp_path / "claims.toml"))
    for one in store:
        if how == "deleted":
            shutil.rmtree(one.directory)
        else:
            (one.directory / "status.json").unlink()
    run(tmp_path, shift=1.5)
    (found,) = kymograph.judge(tmp_path, tmp_path / "claims.toml")
    assert found.registration == "post hoc"


def test_claiming_to_have_started_after_a_registration_does_not_help(tmp_path: Path) -> None:
    store = run(tmp_path, shift=1.5)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    (late,) = register(tmp_path, read_claims(tmp_path / "claims.toml"))
    for one in store:
        _reseal(one.directory, "config.json", lambda content: content["provenance"].update(log=[late.digest]))
    (found,) = kymograph.judge(tmp_path, tmp_path / "claims.toml")
    assert found.registration == "post hoc"


def test_looks_hidden_behind_another_setting_are_interim(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(CLAIMS + "where = { shift = 1.5 }\n")
    register(tmp_path / "runs", read_claims(tmp_path / "claims.toml"), studies=[Tossing()])
    run(tmp_path / "runs", shift=0.0)
    run(tmp_path / "runs", seeds=7, shift=1.5)
    (found,) = kymograph.judge(tmp_path / "runs", tmp_path / "claims.toml")
    assert found.registration == "registered, interim: 7 of 10 registered seeds"


def test_every_version_of_a_claim_counts_in_the_family(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / "claims.toml").write_text(CLAIMS.replace("margin = 1.0", f"margin = {number / 20}"))
        register(tmp_path / "runs", read_claims(tmp_path / "claims.toml"))
    run(tmp_path / "runs", shift=3.0)
    (found,) = kymograph.judge(tmp_path / "runs", tmp_path / "claims.toml")
    assert found.family_size == 13
    assert any(
        "11 claims about tossing were changed and registered again" in line for line in _noted(tmp_path / "runs")
    )


def test_the_same_claim_from_a_renamed_file_is_the_same(tmp_path: Path) -> None:
    for name in ("one.toml", "other.toml"):
        (tmp_path / name).write_text(CLAIMS)
    register(tmp_path / "runs", read_claims(tmp_path / "one.toml"))
    run(tmp_path / "runs")
    (found,) = kymograph.judge(tmp_path / "runs", tmp_path / "other.toml")
    assert found.registration == "registered" and found.family_size == 2


@pytest.mark.parametrize("what", ["raised", "emptied", "infinite"])
def test_a_summary_edited_with_its_checksum_shows_when_computed_again(tmp_path: Path, what: str) -> None:
    store = run(tmp_path)

    def edit(content: dict) -> None:
        if what == "emptied":
            content["summary"].clear()
        else:
            content["summary"]["x"] = "Infinity" if what == "infinite" else content["summary"]["x"] + 3

    _reseal(next(iter(store)).directory, "summary.json", edit)
    findings = [one for one in verify(tmp_path, rerun=20, studies=[_loaded()]) if "computed again" in one.what]
    assert len(findings) == 20 and sum(not one.holds for one in findings) == 1


def test_a_divergence_that_was_made_up_shows_when_the_run_is_computed_again(tmp_path: Path) -> None:
    """It would let a claim that leaves out diverged seeds lose one more."""
    store = run(tmp_path)
    _reseal(store[0].directory, "summary.json", lambda content: content.update(diverged={"step": 5}))
    findings = [one for one in verify(tmp_path, rerun=20, studies=[_loaded()]) if "computed again" in one.what]
    (made_up,) = [one.detail for one in findings if not one.holds]
    assert made_up == "by its record it diverged at step 5, computed again it did not diverge"


def test_giving_up_every_run_leaves_a_verdict(tmp_path: Path) -> None:
    run(tmp_path)
    abandon_runs(tmp_path, "the result was not what we hoped for", finished=True)
    (found,) = kymograph.judge(tmp_path)
    assert found.outcome == "INVALID" and "all 10 planned runs of tails were abandoned" in found.reason
    assert any("20 planned runs were abandoned (the result was not" in line for line in _noted(tmp_path))
    with pytest.raises(KymographError, match="say why"):
        abandon_runs(tmp_path, "\u200b", finished=True)


def test_a_study_that_was_deleted_leaves_its_verdicts(tmp_path: Path) -> None:
    run(tmp_path, shift=3.0)
    shutil.rmtree(tmp_path / "tossing")
    kymograph.run(SPIKY, seeds=[1], out=tmp_path, quiet=True, engine="serial")
    found = {one.claim.study: one for one in kymograph.judge(tmp_path)}["tossing"]
    assert found.outcome == "INVALID" and "the declaration of tossing was changed" in found.reason
    assert {"planned runs", "the declaration of tossing"} <= set(wrong(tmp_path))


def test_touching_the_code_to_drop_seeds_is_interim_and_counted_even_if_deleted(tmp_path: Path) -> None:
    source = Path(inspect.getfile(Tossing)).read_text()
    study = tmp_path / "mine.py"
    study.write_text(source)
    out = tmp_path / "runs"
    store = kymograph.run(f"{study}:Tossing", n_seeds=10, out=out, quiet=True, engine="serial")
    study.write_text(source + "TOUCHED = True\n")
    kymograph.run(f"{study}:Tossing", n_seeds=7, out=out, quiet=True, engine="serial")
    for one in store:
        shutil.rmtree(one.directory)
    (found,) = kymograph.judge(out)
    assert found.registration == "registered, interim: 7 of 10 registered seeds"
    assert any("20 runs of the study's earlier code" in note for note in found.notes)
    assert any("20 superseded runs are gone" in line for line in _noted(out)) and not wrong(out)


def test_a_sequential_design_decides_at_its_looks_only(tmp_path: Path) -> None:
    (registered,) = register(tmp_path, [claim("tails is larger")], looks=(8, 10, 12), studies=[Tossing()])
    assert registered.terms.design.sizes == (8, 10, 12) and len(registered.terms.seeds) == 12
    looks = {4: "interim: 4 of 12 registered seeds", 8: "look 1 of 3 (8 of 12 seeds)", 9: "look 1 of 3 (8 of 12 seeds)",
             10: "look 2 of 3 (10 of 12 seeds)", 14: "look 3 of 3 (12 of 12 seeds)"}  # fmt: skip
    for seeds, words in looks.items():
        run(tmp_path, seeds=seeds)
        found = verdict(tmp_path)
        assert found.registration == f"registered, {words}"
        assert found.n == {4: 4, 8: 8, 9: 8, 10: 10, 14: 12}[seeds]
    assert any("2 seeds beyond the registered ones" in note for note in found.notes)


def test_a_look_that_can_decide_nothing_is_refused(tmp_path: Path) -> None:
    """At six of ten seeds the exact test reaches 0.031, and the look may spend 0.03."""
    with pytest.raises(KymographError, match="the look at 6 seeds can decide nothing"):
        register(tmp_path, [claim("tails is larger")], looks=(6, 8, 10))


def _noted(out: Path) -> list[str]:
    return [finding.what for finding in verify(out) if finding.note]


def _reseal(directory: Path, file: str, edit: Callable[[dict], None]) -> None:
    """Edits a file of a record and makes its checksum anew, as a forger would."""
    content = json.loads((directory / file).read_text())
    edit(content)
    (directory / file).write_text(json.dumps(content))
    status = json.loads((directory / "status.json").read_text())
    packed = (directory / file).read_bytes()
    status["files"][file] = {"bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest()}
    (directory / "status.json").write_text(json.dumps(status))
