"""The claims about the rule family: decidable with ten seeds, and each decided by what it says."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from kymograph._claims.decision import can_decide
from kymograph._claims.evidence import StudyEvidence
from kymograph._claims.judge import decide_claims
from kymograph._claims.verdict import Outcome, Verdict
from kymograph._runs.record import RunSeries
from kymograph_studies.analysis.alignment import angle
from kymograph_studies.rule_family import RuleFamily
from kymograph_studies.rule_family.arms import NETWORKS
from kymograph_studies.rule_family.claims import DEGREES, claims, steps_to_angle

PARTS = ("embed", "blocks.0", "blocks.1")


@dataclass(frozen=True)
class MadeRun:
    arm: str
    seed: int
    summary: dict
    config: dict = field(default_factory=dict)
    series: dict = field(default_factory=dict)


def world(**changes: float) -> list[Verdict]:
    """Judges ten made-up seeds in which every claim holds but for ``changes``, by arm or number."""
    draw = np.random.default_rng(0)
    usual = {"bp": 0.97, "usf": 0.97, "fa": 0.9, "kp": 0.95, "dfa": 0.95, "drtp": 0.9, "shallow": 0.8}
    runs = []
    for arm in RuleFamily().arms():
        for seed in range(10):
            accuracy = changes.get(arm.name, {"conv/dfa": 0.7}.get(arm.name, usual.get(arm.name.split("/")[1], 0.9)))
            summary = {
                "test_accuracy": accuracy + draw.normal(0, 0.002),
                "angle_at_theory_step": changes.get("angle", 5.0) + draw.normal(0, 0.1),
                "alignment_peak_time": changes.get("peak", 50.0) * np.exp(draw.normal(0, 0.05)),
                "half_fit_time": 150.0,
                "alignment_at_half_fit": 0.5,
                "alignment_after_half_fit": 0.5 - changes.get("given_up", 0.2) + draw.normal(0, 0.01),
                "loss_fall": changes.get("loss_fall", 100.0),
            }
            aligned = np.array([[changes.get("cosine", 0.4)] * 3]) + draw.normal(0, 0.01, (1, 3))
            series = {
                "alignment": RunSeries(np.array([360]), aligned, PARTS),
                "alignment_null": RunSeries(np.array([360]), np.zeros((1, 3)), PARTS),
            }
            runs.append(MadeRun(arm.name, seed, summary, series=series))
    return decide_claims(claims(), StudyEvidence(runs), lambda claim: "registered")


def outcome(found: list[Verdict], name: str) -> Outcome:
    return next(verdict.outcome for verdict in found if verdict.claim.name == name)


def test_ten_seeds_can_decide_the_family() -> None:
    made = claims()
    assert len({claim.name for claim in made}) == len(made) == 17
    assert can_decide(10, len(made), 0.05)
    assert all(claim.origin.startswith("arXiv:") and claim.checks for claim in made)


def test_where_everything_holds_everything_is_supported() -> None:
    found = world()
    assert {verdict.outcome for verdict in found} == {Outcome.SUPPORTED}, [
        (verdict.claim.name, verdict.outcome) for verdict in found if verdict.outcome is not Outcome.SUPPORTED
    ]


@pytest.mark.parametrize(("change", "claim"), [
    ({"cosine": -0.05}, "FA aligns at embed"),
    ({"conv-bn/usf": 0.9}, "sign symmetry equals BP: Convolution, batch norm"),
    ({"angle": 14.0}, "Kolen-Pollack's feedback turns into the weights in time: decay 0.1"),
    ({"conv/dfa": 0.97}, "DFA loses more on convolution than on the MLP"),
    ({"peak": 300.0}, "DFA's alignment peaks before half of the fit"),
    ({"given_up": -0.1}, "DFA gives up alignment as it fits"),
    ({"vit/drtp": 0.5}, "DRTP beats head only: ViT-Mini"),
])  # fmt: skip
def test_where_one_thing_fails_its_claim_is_refuted(change: dict[str, float], claim: str) -> None:
    found = world(**change)
    assert outcome(found, claim) is Outcome.REFUTED


@pytest.mark.parametrize(("change", "claim"), [
    ({"mlp/fa": 0.1}, "FA aligns at embed"),
    ({"conv/shallow": 0.96}, "sign symmetry equals BP: Convolution"),
    ({"loss_fall": 3.0}, "DFA gives up alignment as it fits"),
    ({"transformer/bp": 0.2}, "DRTP beats head only: Transformer on tokens"),
])  # fmt: skip
def test_a_comparison_that_means_nothing_is_invalid(change: dict[str, float], claim: str) -> None:
    assert outcome(world(**change), claim) is Outcome.INVALID


def test_drtp_is_compared_with_head_only_on_every_network() -> None:
    assert sum(claim.name.startswith("DRTP beats head only") for claim in claims()) == len(NETWORKS)


def test_weights_that_keep_their_length_are_within_the_angle_at_that_time_and_not_long_before() -> None:
    lr, wd = 0.1, 0.2
    time = steps_to_angle(lr, wd)
    assert time is not None
    draw = torch.Generator().manual_seed(0)
    weight, feedback = torch.randn(2, 100_000, generator=draw, dtype=torch.float64)
    learned = torch.randn(100_000, generator=draw, dtype=torch.float64)  # what W consists of by then, of its first size
    apart = (feedback - weight) * (1 - lr * wd) ** time
    assert angle(learned, learned + apart) == pytest.approx(DEGREES, abs=0.3)
    earlier = (feedback - weight) * (1 - lr * wd) ** (time - 20)
    assert angle(learned, learned + earlier) > DEGREES


def test_half_the_decay_takes_twice_the_time() -> None:
    fast, slow = steps_to_angle(0.01, 0.1), steps_to_angle(0.005, 0.1)
    assert fast is not None and slow is not None
    assert slow / fast == pytest.approx(2, rel=0.01)
    assert (
        math.sqrt(2) * (1 - 0.001) ** fast <= math.sin(math.radians(DEGREES)) < math.sqrt(2) * (1 - 0.001) ** (fast - 1)
    )


@pytest.mark.parametrize(("lr", "wd"), [(0.1, 0.0), (2.0, 1.0)])
def test_without_decay_there_is_no_such_time(lr: float, wd: float) -> None:
    assert steps_to_angle(lr, wd) is None
