"""What a user can do to a verdict, and the trace that it leaves."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import kymograph
from kymograph.claims.verdict import Verdict
from kymograph.errors import KymographError
from kymograph.lab.abandon import abandon_runs
from kymograph.lab.register import register_file, registered_seeds
from kymograph.lab.verify import all_hold, verify
from kymograph.runs.log import DIRECTORY
from tests.studies.tossing import REFERENCE, Tossing


def run(out: Path, seeds: int = 10, **fields: float) -> kymograph.Store:
    return kymograph.run(REFERENCE, n_seeds=seeds, out=out, quiet=True, **fields)


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
    register_file(tmp_path / "runs", tmp_path / "many.toml")
    run(tmp_path / "runs", shift=4.0)
    every = {v.claim.name: v for v in kymograph.judge(tmp_path / "runs", tmp_path / "many.toml")}
    (alone,) = kymograph.judge(tmp_path / "runs", tmp_path / "one.toml")
    assert alone.family_size == every["tails is larger by 3"].family_size == 13, "the study's own claim counts too"
    assert alone.p is not None and alone.p_flip is not None and alone.p >= 13 * min(alone.p_flip, 2 / 2**10) - 1e-12
    assert any("12 more registered claims share the level" in note for note in alone.notes)


def test_a_family_that_the_seeds_cannot_decide_is_refused(tmp_path: Path) -> None:
    (tmp_path / "many.toml").write_text("".join(CLAIMS.replace("much larger", f"larger by {n}") for n in range(26)))
    with pytest.raises(KymographError, match="10 seeds cannot decide the 26 claims of tossing together"):
        register_file(tmp_path / "runs", tmp_path / "many.toml")
    assert register_file(tmp_path / "runs", tmp_path / "many.toml", seeds=list(range(12)))


@pytest.mark.parametrize("how", ["with the plan", "and the plan shortened", "with the plan and the log", "alone"])
def test_deleting_the_worst_seeds_makes_the_verdict_invalid(tmp_path: Path, how: str) -> None:
    """6 of 14 seeds deleted with `plan.json` used to turn INCONCLUSIVE into SUPPORTED."""
    store = run(tmp_path, shift=0.5)
    values = {seed: run_.summary["x"] for seed, run_ in zip(store.seeds, store.select(arms=["tails"]), strict=True)}
    worst = sorted(values, key=lambda seed: values[seed])[:3]
    for one in store:
        if one.seed in worst:
            shutil.rmtree(one.directory)
    plan = tmp_path / "tossing" / "plan.json"
    if how == "and the plan shortened":
        content = json.loads(plan.read_text())
        content["runs"] = [entry for entry in content["runs"] if entry["seed"] not in worst]
        plan.write_text(json.dumps(content))
    elif how != "alone":
        plan.unlink()
    if how == "with the plan and the log":
        shutil.rmtree(tmp_path / DIRECTORY)
    found = verdict(tmp_path)
    assert found.outcome == "INVALID", found.reason
    assert any(word in found.reason for word in ("deleted or shortened", "log that", "missing")), found.reason
    assert wrong(tmp_path)


def test_registering_after_the_runs_is_post_hoc_wherever_they_were_meanwhile(tmp_path: Path) -> None:
    """Runs that were moved away during `register` and moved back used to count as registered."""
    run(tmp_path / "first", shift=3.0)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    shutil.move(tmp_path / "first" / "tossing", tmp_path / "aside")
    register_file(tmp_path / "first", tmp_path / "claims.toml")
    shutil.move(tmp_path / "aside", tmp_path / "first" / "tossing")
    found = {v.claim.name: v for v in kymograph.judge(tmp_path / "first", tmp_path / "claims.toml")}
    assert found["tails is much larger"].registration == "post hoc"


def test_runs_brought_into_a_directory_with_a_registration_of_its_own_do_not_fit_its_log(tmp_path: Path) -> None:
    run(tmp_path / "made", shift=3.0)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    register_file(tmp_path / "new", tmp_path / "claims.toml")
    shutil.copytree(tmp_path / "made" / "tossing", tmp_path / "new" / "tossing")
    (found,) = kymograph.judge(tmp_path / "new", tmp_path / "claims.toml")
    assert found.outcome == "INVALID" and "the log that" in found.reason
    assert "what runs say of the log" in wrong(tmp_path / "new")


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
    kymograph.run(REFERENCE, seeds=[7, 8, 9], out=tmp_path, quiet=True)
    assert "interim: 3 of 10" in verdict(tmp_path).registration
    assert registered_seeds([7, 8, 9])[:5] == (7, 8, 9, 42, 123) and len(registered_seeds(range(20))) == 20


@pytest.mark.parametrize("file", ["claims.json", "study.json"])
def test_editing_what_is_stored_beside_the_runs_shows(tmp_path: Path, file: str) -> None:
    run(tmp_path, shift=3.0)
    path = tmp_path / file if file == "claims.json" else tmp_path / "tossing" / file
    content = json.loads(path.read_text())
    if file == "claims.json":
        (entry,) = content["claims"].values()
        entry["claim"]["margin"] = 2.0
    else:
        content["arms"][0]["treatment"]["shift"] = 0.0
    path.write_text(json.dumps(content))
    assert verdict(tmp_path).outcome == "INVALID" and "changed since it was logged" in verdict(tmp_path).reason
    assert wrong(tmp_path)


def test_when_a_claim_was_registered_cannot_be_edited(tmp_path: Path) -> None:
    """`runs_then` in `claims.json` used to decide it."""
    run(tmp_path, shift=3.0)
    (tmp_path / "claims.toml").write_text(CLAIMS)
    register_file(tmp_path, tmp_path / "claims.toml")
    path = tmp_path / "claims.json"
    path.write_text(path.read_text().replace('"runs_then": 20', '"runs_then": 0'))
    (found,) = kymograph.judge(tmp_path, tmp_path / "claims.toml")
    assert found.registration == "post hoc"


def test_an_edited_entry_of_the_log_shows_everywhere(tmp_path: Path) -> None:
    run(tmp_path, shift=3.0)
    (segment,) = (tmp_path / DIRECTORY).glob("*.jsonl")
    segment.write_text(segment.read_text().replace('"margin": 0.0', '"margin": 1.0'))
    assert verdict(tmp_path).outcome == "INVALID" and "edited" in verdict(tmp_path).reason
    assert "the log" in wrong(tmp_path)


def test_abandoning_runs_is_logged_and_makes_the_claim_post_hoc(tmp_path: Path) -> None:
    store = run(tmp_path, shift=3.0)
    with pytest.raises(KymographError, match="say why"):
        abandon_runs(tmp_path, "  ", seeds=[42])
    assert abandon_runs(tmp_path, "the disk broke", seeds=[42]) == 2
    assert abandon_runs(tmp_path, "the disk broke", seeds=[42]) == 0
    for one in store.select(seeds=[42]):
        shutil.rmtree(one.directory)
    found = verdict(tmp_path)
    assert found.outcome == "SUPPORTED" and found.n == 9
    assert found.registration.startswith("post hoc: 2 planned runs were abandoned (the disk broke)")


def test_a_published_digest_must_be_in_the_log(tmp_path: Path) -> None:
    (tmp_path / "claims.toml").write_text(CLAIMS)
    (registration,) = register_file(tmp_path / "runs", tmp_path / "claims.toml")
    run(tmp_path / "runs")
    assert all(one.holds for one in verify(tmp_path / "runs", anchor=registration.short_digest))
    assert not all(one.holds for one in verify(tmp_path / "runs", anchor="0123456789abcdef"))


def test_runs_computed_again_are_compared(tmp_path: Path) -> None:
    store = run(tmp_path)
    findings = [one for one in verify(tmp_path, rerun=3, studies=[_loaded()], seed=1) if "computed again" in one.what]
    assert len(findings) == 3 and all(one.holds and one.detail == "the same bits" for one in findings)
    missing = [one for one in verify(tmp_path, rerun=1) if "computed again" in one.what]
    assert not missing[0].holds and "its study's code is not here" in missing[0].detail
    assert store.root is not None


def _loaded() -> kymograph.Study:
    return kymograph.load_study(REFERENCE)
