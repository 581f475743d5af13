from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

import kymograph
from kymograph._errors import KymographError
from kymograph._runs.store import Store
from kymograph._studies.loading import load_study
from kymograph_studies.analysis.flow import float64_cosines
from kymograph_studies.audit import AuditConfig
from kymograph_studies.audit import questions as audit_module
from kymograph_studies.audit.checkpoint import Audited, audit
from kymograph_studies.audit.questions import depth_utility, reference, scale, step
from kymograph_studies.data.images import Batches
from kymograph_studies.data.images import load_digits as digits
from kymograph_studies.snapshot import SnapshotConfig
from kymograph_studies.training.image_training import make_network
from tests.cli.command import call

QUICK = {"epochs": 6, "width": 16, "depth": 3, "lr": 0.01, "log_every": 2}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """BP, DFA and frozen blocks at one seed, small and short."""
    out = tmp_path_factory.mktemp("a")
    kymograph.run(
        "snapshot", seeds=[42], arms=["resmlp/bp", "resmlp/frozen"], out=out, quiet=True, engine="serial", **QUICK
    )
    kymograph.run(
        "snapshot",
        seeds=[42],
        arms=["resmlp/dfa"],
        out=out,
        quiet=True,
        engine="serial",
        **{**QUICK, "lr": 0.3, "epochs": 12},
    )
    return Store.open(out)


@pytest.fixture(scope="module")
def audits(store: Store) -> dict[str, Audited]:
    return {run.arm: audit(run.directory, quiet=True, images=300) for run in store}


def words(found: Audited) -> dict[str, str]:
    return {answer.question: answer.word for answer in found.answers}


def test_backpropagation_passes_scale_and_reference_and_its_credit_is_the_gradient(audits) -> None:
    found = words(audits["resmlp/bp"])
    assert found["scale stability"] == found["reference validity"] == "PASS"
    assert found["perturbation correlation"] == found["descent"] == "PASS"


def test_dfa_fails_scale_with_the_epoch_at_which_the_alarm_rang(store: Store, audits) -> None:
    answer = audits["resmlp/dfa"].answers[0]
    run = store.select(arms=["resmlp/dfa"]).runs[0]
    assert answer.word == "FAIL" and f"since epoch {run.summary['alarm_growth_epoch']}" in answer.why
    assert audits["resmlp/dfa"].passed is False


def test_frozen_blocks_fail_depth_utility_and_nothing_else_of_the_three(audits) -> None:
    found = words(audits["resmlp/frozen"])
    assert found["depth utility"] == "FAIL" and found["scale stability"] == found["reference validity"] == "PASS"
    assert audits["resmlp/frozen"].answers[2].numbers["gain"] == 0.0, "the baseline of a frozen run is itself"


def test_the_ladder_ends_at_the_run_itself_and_its_first_rung_is_frozen(store: Store, audits) -> None:
    """The same seed, the same arithmetic: training all blocks as a rung of the ladder gives the audited run."""
    ladder = audits["resmlp/bp"].answers[2].numbers["ladder"]
    accuracy = {run.arm: run.summary["test_accuracy"] for run in store}
    assert sorted(ladder) == [0, 1, 2, 3]
    assert ladder[3] == accuracy["resmlp/bp"] and ladder[0] == accuracy["resmlp/frozen"]
    assert audits["resmlp/dfa"].answers[2].numbers["ladder"][3] == accuracy["resmlp/dfa"]


def test_blocks_that_do_not_learn_keep_their_first_values(store: Store, audits) -> None:
    from kymograph_studies.training.trained_networks import load

    rung = next(run for run in Store.open(store.root) if run.study == "audit" and run.arm == "dfa/last1")
    trained = load(rung.directory)
    start = dict(trained.untrained.named_parameters())
    moved = {name for name, p in trained.net.named_parameters() if not torch.equal(p, start[name])}
    assert not any(name.startswith(("blocks.0", "blocks.1")) for name in moved)
    assert all(any(name.startswith(part) for name in moved) for part in ("embed", "blocks.2", "head"))


def test_a_second_audit_trains_nothing(store: Store, audits, capsys: pytest.CaptureFixture) -> None:
    before = len(Store.open(store.root))
    run = store.select(arms=["resmlp/bp"]).runs[0]
    target = store.root / "audit.json"
    assert call("audit", str(run.directory), "--images", "300", "-o", str(target)) == 0
    out = capsys.readouterr().out
    assert "depth utility" in out and "threshold" in out
    assert len(Store.open(store.root)) == before
    content = json.loads(target.read_text())
    assert [answer["answer"] for answer in content["answers"]] == list(words(audits["resmlp/bp"]).values())


def test_without_a_ladder_depth_cannot_be_told_and_strict_exits_with_one(store: Store, capsys) -> None:
    run = store.select(arms=["resmlp/bp"]).runs[0]
    assert call("audit", str(run.directory), "--no-ladder", "--strict") == 1
    assert "CANNOT TELL depth utility" in capsys.readouterr().out


def test_a_rule_that_the_audit_does_not_know_is_not_compared_with_another_rules_ladder(tmp_path: Path) -> None:
    """Its networks used to be set against the ladder of backpropagation."""
    settings = {"epochs": 1, "width": 8, "depth": 2}
    (run,) = kymograph.run(
        "tests.studies.rules:Normalised", seeds=[42], out=tmp_path, quiet=True, engine="serial", **settings
    ).runs
    found = audit(run.directory, quiet=True, images=50)
    assert found.passed is not True and len(kymograph.Store.open(tmp_path)) == 1, "no ladder was trained"
    for question in ("depth utility", "perturbation correlation", "descent"):
        (answer,) = (answer for answer in found.answers if answer.question == question)
        assert answer.word == "CANNOT TELL" and "does not know the rule 'normalised-bp'" in answer.why


def test_wrong_images_are_named_in_one_sentence(store: Store, capsys: pytest.CaptureFixture) -> None:
    run = store.runs[0]
    assert call("audit", str(run.directory), "--data", "synthetic", "--no-ladder") == 1
    assert "does not take images of synthetic" in capsys.readouterr().err


def test_a_ladder_has_no_more_rungs_than_blocks() -> None:
    with pytest.raises(KymographError, match="last must be from 0 to 4"):
        AuditConfig(last=5)


def test_scale_is_decided_at_the_threshold() -> None:
    assert scale([1.0, 50.0], 1.0, None).passed is True
    assert scale([1.0, 50.1], 1.0, None).passed is False
    assert scale([1.0, 2.0], 1.0, 7).passed is False, "an alarm that rang is not forgotten"
    assert scale([math.nan, math.nan], None, None).word == "CANNOT TELL"


def test_a_blown_up_stream_fails_reference_though_its_direction_is_exact() -> None:
    """With a terminal LayerNorm the gradient is of the order 1/||h||: growth alone takes the reference away."""
    net = make_network(SnapshotConfig(width=16, depth=2), digits(), 1)
    x, y = Batches(digits(), 8).test(100)
    assert reference(net, x, y, None)[0].passed is True
    with torch.no_grad():
        for parameter in net.embed.parameters():
            parameter *= 1e7
    answer, _ = reference(net, x, y, None)
    assert answer.passed is False and min(answer.numbers["float64_cosines"]) > 0.999
    assert "the gradient is too small" in answer.why


def test_small_errors_do_not_fail_reference() -> None:
    """A network that is right everywhere has tiny gradients; the published threshold would fail it."""
    net = make_network(SnapshotConfig(width=16, depth=2, out_ln=False), digits(), 1)
    x, _ = Batches(digits(), 8).test(100)
    with torch.no_grad():
        for parameter in net.embed.parameters():
            parameter *= 200  # wide margins between the logits, through a head that is not steep
        net.head.weight *= 0.4
        y = net(x).argmax(-1)
    answer, _ = reference(net, x, y, None)
    assert answer.numbers["g_L_published_scale"] < 1e-7 and answer.passed is True
    assert "errors are small" in answer.why


def test_a_gradient_without_direction_cannot_be_a_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The points that had one used to decide alone."""
    net = make_network(SnapshotConfig(width=16, depth=2), digits(), 1)
    x, y = Batches(digits(), 8).test(100)
    assert reference(net, x, y, None)[0].passed is True

    def none_at_the_first(*given: object) -> list[torch.Tensor]:
        first, *others = float64_cosines(*given)  # type: ignore[arg-type]
        return [torch.full_like(first, math.nan), *others]

    monkeypatch.setattr(audit_module, "float64_cosines", none_at_the_first)
    answer, _ = reference(net, x, y, None)
    assert answer.word == "CANNOT TELL" and "h_0 has no direction" in answer.why


def test_a_loss_that_is_no_number_neither_falls_nor_rises(monkeypatch: pytest.MonkeyPatch) -> None:
    net = make_network(SnapshotConfig(width=16, depth=2), digits(), 1)
    x, y = Batches(digits(), 8).test(100)
    assert step(net, [], False, 0.0, x, y, 1).word == "PASS"
    monkeypatch.setattr(audit_module, "descent", lambda net, rules, *more: [math.nan] * (len(rules) + 1))
    assert step(net, [], False, 0.0, x, y, 1).word == "CANNOT TELL"


def test_depth_utility_is_the_paired_gain_with_its_interval() -> None:
    hits = torch.tensor([True] * 90 + [False] * 10)
    frozen = torch.tensor([True] * 70 + [False] * 30)
    answer = depth_utility(hits, frozen, {0: 0.7, 1: 0.9})
    differences = hits.double().numpy() - frozen.double().numpy()
    error = differences.std(ddof=1) / np.sqrt(100)
    assert answer.numbers["gain"] == pytest.approx(0.2)
    assert answer.numbers["interval"] == pytest.approx((0.2 - 1.96 * error, 0.2 + 1.96 * error))
    assert answer.passed is True and "highest at 1" in answer.why
    assert depth_utility(frozen, hits, {}).passed is False
    assert depth_utility(hits, hits, {}).passed is False


def test_feedback_that_had_no_part_in_training_passes_neither_functional_test_often() -> None:
    """On an untrained network every matrix is a fresh one, so each test passes about one time in twenty."""
    from kymograph_studies.audit.questions import perturbation, step
    from kymograph_studies.rules.feedback import draw_feedback

    net = make_network(SnapshotConfig(width=16, depth=2, w2_std=0.3), digits(), 1)
    x, y = Batches(digits(), 8).test(40)
    passed = [0, 0]
    for seed in range(12):
        feedback = draw_feedback(torch.Generator().manual_seed(1000 + seed), [16, 16], 10)
        passed[0] += bool(perturbation(net, feedback, x, y, seed).passed)
        passed[1] += bool(step(net, feedback, True, 0.0, x, y, seed).passed)
    assert max(passed) <= 3


def test_a_diverged_network_is_audited_and_has_no_right_answers(tmp_path: Path) -> None:
    options = {"arms": ["resmlp/dfa"], "epochs": 1, "lr": 1e30, "batch_size": 2000, "width": 8, "depth": 2}
    (run,) = kymograph.run("snapshot", seeds=[42], out=tmp_path, quiet=True, engine="serial", **options).finished
    assert run.summary["test_accuracy"] is None
    found = kymograph.audit(run.directory, quiet=True)
    utility = next(answer for answer in found.answers if answer.question == "depth utility")
    assert utility.passed is False and utility.numbers["accuracy"] == 0 and utility.numbers["ladder"] == {}


def test_one_block_is_not_spoken_of_as_several() -> None:
    about = {arm.name: arm.about for arm in load_study("audit").arms()}
    assert about["bp/last0"] == "bp, no block learns" and about["bp/last1"] == "bp, the last block learns"
    assert about["bp/last2"] == "bp, the last 2 blocks learn"
