"""The claims about depth: about what the script measured, and not to be won by an arm that learned nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import pytest

from kymograph._claims.decision import can_decide
from kymograph._claims.evidence import StudyEvidence
from kymograph._claims.judge import decide_claims
from kymograph._claims.verdict import Outcome, Verdict
from kymograph_studies.depth import WIRINGS
from kymograph_studies.depth.claims import LEVEL_MARGIN, claims

NULL = 1 / 3
TASKS = ("identity", "orthogonal")
SCRIPT_LINES = {
    2: "title: the identity task",
    4: "finding: vanishing gradients",
    5: "finding: residual connections solve it",
    215: "title of the figure of losses",
    238: "title of the figure of gradients",
    319: "prints plain's last training loss",
    324: "prints residual's last training loss",
    335: "prints plain's loss on the fresh batch",
    336: "prints residual's loss on the fresh batch",
}
"""What stands in the lines of script 003 that a claim may refer to."""


@dataclass(frozen=True)
class MadeRun:
    arm: str
    seed: int
    summary: dict
    config: dict
    series: dict = field(default_factory=dict)


def told(arm: str, task: str, **numbers: float) -> dict[str, Verdict]:
    """Returns verdicts by set-up and name on ten seeds where all arms do as the null predictor, but one arm does not.

    Gradients are level wherever ``numbers`` do not say otherwise.
    """
    level = ("final_backward_gain", "final_pre_backward_gain", "initial_backward_gain")
    losses = ("initial_loss", "final_loss", "mean_last_50_loss", "fresh_loss")
    runs = []
    for position, which in enumerate(wiring.name for wiring in WIRINGS):
        for where in TASKS:
            own = numbers if (which, where) == (arm, task) else {}
            draw = np.random.default_rng([position, TASKS.index(where)])
            for seed in range(10):
                summary = {**dict.fromkeys(level, 1.0), **dict.fromkeys(losses, NULL), "fresh_loss_over_null": 1.0}
                noise = float(np.exp(0.001 * draw.normal()))
                summary = {name: value * noise for name, value in {**summary, **own}.items()}
                runs.append(MadeRun(which, seed, summary, {"task": where}))
    found = decide_claims(claims(), StudyEvidence(runs), lambda claim: "registered")
    return {f"{verdict.claim.setup}: {verdict.claim.name}": verdict for verdict in found}


def about(verdicts: dict[str, Verdict], arm: str, task: str, words: str) -> list[Verdict]:
    """Returns the verdicts on claims whose left side is this arm on this task, with these words in their name."""
    found = [
        verdict
        for name, verdict in verdicts.items()
        if words in name and (verdict.claim.left.arm, verdict.claim.left.where["task"]) == (arm, task)
    ]
    assert found, f"nothing is claimed of {arm} on the {task} task about {words!r}"
    return found


@pytest.mark.parametrize(
    ("gain", "outcome"),
    [(1.0, Outcome.SUPPORTED), (1.062, Outcome.REFUTED), (1 / 1.062, Outcome.REFUTED), (0.5, Outcome.REFUTED)],
)
@pytest.mark.parametrize(("arm", "task"), [("residual", "identity"), ("residual/scaled", "orthogonal")])
def test_gradients_that_vanish_are_no_more_level_than_those_that_explode(
    arm: str, task: str, gain: float, outcome: Outcome
) -> None:
    """The claim used to be one-sided, so a gradient that halved with every layer was level."""
    found = told(arm, task, final_backward_gain=gain, final_pre_backward_gain=gain)
    assert {verdict.outcome for verdict in about(found, arm, task, "level")} == {outcome}


def test_the_scripts_level_and_vanishing_gradients_are_those_before_the_relu() -> None:
    """They used to be judged on the stream, which the script never sees."""
    explodes = told("residual", "identity", final_backward_gain=1.0, final_pre_backward_gain=1.062)
    assert explodes["script: residual connections keep gradients level"].outcome is Outcome.REFUTED
    vanishes = told("plain", "identity", final_backward_gain=1.0, final_pre_backward_gain=0.9)
    assert vanishes["script: gradients of the plain stack vanish with depth"].outcome is Outcome.SUPPORTED


def test_the_repaired_stack_is_judged_in_both_quantities() -> None:
    found = told("residual/scaled", "orthogonal", final_backward_gain=1.012, final_pre_backward_gain=1.062)
    outcomes = {v.claim.left.measure.name: v.outcome for v in about(found, "residual/scaled", "orthogonal", "level")}
    assert outcomes == {"final_backward_gain": Outcome.SUPPORTED, "final_pre_backward_gain": Outcome.REFUTED}


@pytest.mark.parametrize("arm", ["residual", "residual/scaled", "residual/zero"])
def test_whoever_learned_nothing_is_not_better_than_plain(arm: str) -> None:
    """Half of plain's loss used to be enough, even where the null predictor does better than both."""
    task = "identity" if arm == "residual" else "orthogonal"
    worse = dict.fromkeys(("final_loss", "mean_last_50_loss", "fresh_loss"), NULL / 2)
    (verdict,) = about(told(arm, task, **worse, fresh_loss_over_null=1.5), arm, task, "better")
    assert verdict.outcome is Outcome.INVALID
    assert f"{arm} learned something, i.e. beats the null predictor on fresh data" in verdict.reason
    (verdict,) = about(told(arm, task, **worse, fresh_loss_over_null=0.5), arm, task, "better")
    assert verdict.outcome is Outcome.SUPPORTED


def test_one_seed_that_learned_nothing_is_enough() -> None:
    runs = []
    for seed in range(10):
        ratio = 1.0001 if seed == 7 else 0.5 + 0.001 * seed
        numbers = {"fresh_loss": NULL * ratio, "fresh_loss_over_null": ratio, "initial_loss": 1.0}
        runs.append(MadeRun("residual/zero", seed, numbers, {"task": "orthogonal"}))
        runs.append(MadeRun("plain", seed, {"fresh_loss": NULL}, {"task": "orthogonal"}))
    (claim,) = (claim for claim in claims() if claim.name == "zero branches do better, orthogonal map")
    (verdict,) = decide_claims([claim], StudyEvidence(runs), lambda claim: "registered")
    assert verdict.outcome is Outcome.INVALID and "at 1 of 10 seeds" in verdict.reason


@pytest.mark.parametrize(
    ("ratio", "outcome"),
    [
        (0.2, Outcome.SUPPORTED),
        (0.65, Outcome.EQUIVALENT),  # better than nothing, and worse than a stack that ends in a ReLU can do
        (2.2, Outcome.REFUTED),
        (6e4, Outcome.REFUTED),
    ],
)
def test_the_headline_is_judged_against_the_null_predictor(ratio: float, outcome: Outcome) -> None:
    """It used to be judged against the plain stack alone, which learned nothing."""
    found = told("residual", "identity", fresh_loss_over_null=ratio)
    assert found["script: residual connections let a deep stack learn the identity"].outcome is outcome


def test_a_task_that_is_solved_at_the_start_decides_nothing() -> None:
    found = told("residual/zero", "identity", initial_loss=0.0, fresh_loss=0.0, fresh_loss_over_null=0.0)
    (verdict,) = about(found, "residual/zero", "identity", "better")
    assert verdict.outcome is Outcome.INVALID and "solved at the start" in verdict.reason


def test_nobody_who_does_as_the_null_predictor_wins() -> None:
    found = told("plain", "identity")
    winners = [name for name, one in found.items() if one.outcome is Outcome.SUPPORTED and "gradients" not in name]
    assert winners == ["script: the plain stack learns nothing"]


def test_the_margin_of_level_gradients_is_less_than_half_a_decade_over_the_scripts_layers() -> None:
    assert 2 < LEVEL_MARGIN**19 < 10**0.5
    band = {claim.margin for claim in claims() if "gradients" in claim.name}
    assert band == {LEVEL_MARGIN}, "vanishing begins where level ends"


def test_origins_name_lines_of_the_script_and_ten_seeds_carry_the_family() -> None:
    family = claims()
    assert len({(claim.setup, claim.name) for claim in family}) == len(family) <= 25
    assert can_decide(10, len(family), 0.05)
    for claim in family:
        assert claim.origin.startswith("script 003, line")
        lines = re.findall(r"\d+", claim.origin.split(": ")[0].removeprefix("script 003"))
        assert lines and {int(line) for line in lines} <= set(SCRIPT_LINES)
