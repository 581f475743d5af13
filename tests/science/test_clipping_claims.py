"""The claims about clipping: about what the script says, at both imbalances, and never won by a ceiling or a floor."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import kymograph
from kymograph._claims.decision import can_decide
from kymograph._claims.evidence import StudyEvidence
from kymograph._claims.judge import decide_claims, judge
from kymograph._claims.verdict import Outcome, Verdict
from kymograph._runs.store import Store
from kymograph_studies.analysis.metrics import effective_dimension
from kymograph_studies.clipping import Clipping
from kymograph_studies.clipping.claims import DIMENSIONS, RARE_SAMPLE_EVERY, TWICE_AS_LIKELY, claims
from kymograph_studies.models.replicas import initial_weights

CHECK = "manipulation check"
SCRIPT = Path(__file__).parents[3] / "shared" / "seeds"
SCRIPT_LINES = {
    5: "neither",
    6: "STABILITY",
    7: "GRADIENT SPIKE",
    13: "rare sample positions",
    491: "[PREDICTION 2]",
    495: "Verdict",
    497: "[PREDICTION 4]",
    501: "Verdict",
    503: "[STABILITY]",
    505: "weight_norm_std",
    506: "weight_change_max",
    507: "weight_change_max",
}
"""What stands in the lines of script 000 that a claim may refer to."""
PANELS = {"first": "weight_norms", "second": "weight_norm_changes", "fourth": "effective_dims"}
TYPICAL = {
    "effective_dim_std": 0.1, "effective_dim_roughness": 0.01, "effective_dim_change": -0.1, "final_rare_acc": 0.9,
    "weight_norm_std": 0.3, "weight_norm_roughness": 0.01, "weight_change_max": 0.1, "rare_grad_norm": 5.0,
    "common_grad_norm": 0.1, "clip_fraction": 0.1, "bayes_rare_acc": 0.9, "early_rare_prob": 0.6,
    "early_rare_prob_share": 0.67, "rare_steps_to_learn": 500.0, "rare_excess_loss": 0.5,
    "heldout_rare_excess_loss": -3.0,
}  # fmt: skip


@dataclass(frozen=True)
class MadeRun:
    arm: str
    seed: int
    summary: dict
    config: dict = field(default_factory=dict)
    series: dict = field(default_factory=dict)


def told(changes: dict[str, dict[str, float]], at: int | None = None) -> dict[str, Verdict]:
    """Returns verdicts by set-up and name on ten seeds of typical numbers, but for ``changes`` by arm (at one seed)."""
    runs = []
    for number, arm in enumerate(arm for arm in Clipping().arms() if arm.name.count("/") < 3):
        draw = np.random.default_rng(number)
        for seed in range(10):
            own = changes.get(arm.name, {}) if at in (None, seed) else {}
            summary = {name: value * (1 + 0.01 * draw.normal()) for name, value in TYPICAL.items()}
            runs.append(MadeRun(arm.name, seed, {**summary, **own}))
    found = decide_claims(claims(), StudyEvidence(runs), lambda claim: "registered")
    return {f"{verdict.claim.setup}: {verdict.claim.name}": verdict for verdict in found}


def test_ten_seeds_can_decide_the_family() -> None:
    assert can_decide(10, len(claims()) + 1, 0.05), "with one more, of the user's own"
    assert len({(claim.setup, claim.name) for claim in claims()}) == len(claims())
    arms = {arm.name for arm in Clipping().arms()}
    assert all(side.arm in arms for claim in claims() for side in claim.sides)


def test_what_the_script_prints_for_both_imbalances_is_judged_for_both_in_both_set_ups() -> None:
    """Prediction 2, prediction 4 and the weight norm (script 000, lines 484-507)."""
    for setup, prefix in (("script", ""), ("repaired", "learnable/")):
        arms: dict[str, set[str]] = {}
        for claim in claims():
            if claim.setup == setup:
                arms.setdefault(claim.name.split(", ")[0], set()).add(claim.left.arm)
        both = {f"{prefix}extreme/clip", f"{prefix}moderate/clip"}
        for name in (
            "clipping lowers the variation of the effective dimension",
            "clipping prevents representation collapse",
            "rare accuracy is not worse under clipping",
            "clipping steadies the weight norm",
        ):
            assert arms[name] == both, (setup, name)


def test_a_script_claim_is_about_the_scripts_own_number_and_a_repaired_one_is_not() -> None:
    measured: dict[tuple[str, str], set[str]] = {}
    for claim in claims():
        measured.setdefault((claim.setup, claim.name.split(", ")[0]), set()).add(claim.left.measure.name)
    for name, printed, repaired in (
        ("clipping lowers the variation of the effective dimension", "effective_dim_std", "effective_dim_roughness"),
        ("rare accuracy is not worse under clipping", "final_rare_acc", "early_rare_prob"),
        ("clipping steadies the weight norm", "weight_norm_std", "weight_norm_roughness"),
    ):
        assert measured["script", name] == {printed} and measured["repaired", name] == {repaired}
    assert measured["script", "clipping limits the largest change of the weight norm"] == {"weight_change_max"}


def test_what_is_true_by_construction_is_a_manipulation_check_and_nothing_else_is() -> None:
    checks = {claim.left.measure.name for claim in claims() if claim.kind == CHECK}
    assert checks == {"weight_norm_roughness", "effective_dim_roughness", "weight_change_max", "rare_grad_norm"}
    assert not checks & {claim.left.measure.name for claim in claims() if claim.kind is None}


@pytest.mark.parametrize("share", [0.003, 0.995, 1.0])
@pytest.mark.parametrize("arm", ["clip", "no_clip"])
@pytest.mark.parametrize(("imbalance", "ratio"), [("extreme", "99:1"), ("moderate", "80:20")])
def test_an_arm_at_its_floor_or_ceiling_makes_rare_accuracy_invalid(
    imbalance: str, ratio: str, arm: str, share: float
) -> None:
    name = f"repaired: rare accuracy is not worse under clipping, {ratio}"
    assert told({})[name].outcome is Outcome.SUPPORTED
    verdict = told({f"learnable/{imbalance}/{arm}": {"early_rare_prob_share": share}}, at=3)[name]
    assert verdict.outcome is Outcome.INVALID and "neither arm sits at the floor or at the ceiling" in verdict.reason


@pytest.mark.parametrize("steps", [None, math.nan, 0.0])
def test_a_run_that_never_learns_is_missing_and_makes_the_delay_invalid(steps: float | None) -> None:
    name = "repaired: the rare class is not learned later under clipping, 99:1"
    assert told({})[name].outcome is Outcome.SUPPORTED
    verdict = told({"learnable/extreme/clip": {"rare_steps_to_learn": steps}}, at=3)[name]  # type: ignore[dict-item]
    assert verdict.outcome is Outcome.INVALID and "every run learns the rare class" in verdict.reason
    assert "1 of 10 seeds" in verdict.reason


def test_a_delay_of_one_rare_sample_counts_and_a_shorter_one_does_not() -> None:
    name = "repaired: the rare class is not learned later under clipping, 99:1"
    runs = {seed: 500.0 + 7 * seed for seed in range(10)}

    def delayed(by: float) -> Outcome:
        made = [
            MadeRun(arm, seed, {**TYPICAL, "rare_steps_to_learn": steps + (by + seed if arm.endswith("/clip") else 0)})
            for arm in ("learnable/extreme/clip", "learnable/extreme/no_clip")
            for seed, steps in runs.items()
        ]
        (claim,) = (claim for claim in claims() if f"{claim.setup}: {claim.name}" == name)
        return decide_claims([claim], StudyEvidence(made), lambda claim: "registered")[0].outcome

    assert delayed(RARE_SAMPLE_EVERY + 50) is Outcome.REFUTED
    assert delayed(RARE_SAMPLE_EVERY - 50) is Outcome.SUPPORTED and delayed(-400) is Outcome.SUPPORTED
    task = Clipping().specs([1], ["learnable/extreme/clip"])[0].config
    assert task.n_samples / task.n_rare == RARE_SAMPLE_EVERY


def test_a_class_that_cannot_be_learned_decides_nothing_about_learning() -> None:
    """That it is not learned was SUPPORTED, although nothing else could come out."""
    zero = {"final_rare_acc": 0.0, "bayes_rare_acc": 0.0}
    for imbalance, ratio in (("extreme", "99:1"), ("moderate", "80:20")):
        verdict = told({f"{imbalance}/clip": zero, f"{imbalance}/no_clip": zero})[
            f"script: rare accuracy is not worse under clipping, {ratio}"
        ]
        assert verdict.outcome is Outcome.INVALID and "the rare class can be learned" in verdict.reason
    for how in ("with", "without"):
        verdict = told({"extreme/no_clip": zero})[f"script: the rare class is not learned at 99:1 {how} clipping"]
        assert verdict.outcome is Outcome.INVALID and "the rare class can be learned" in verdict.reason


def test_a_class_is_learned_if_it_is_more_likely_than_twice_its_frequency() -> None:
    assert pytest.approx(math.log(2), abs=0.005) == TWICE_AS_LIKELY
    for how in ("without", "with"):
        name = f"script: the rare class is not learned at 99:1 {how} clipping"
        assert told({})[name].outcome is Outcome.SUPPORTED
        assert told({})[name.replace("script", "repaired")].outcome is Outcome.REFUTED
        noise = np.random.default_rng(0).normal(size=10)
        made = [
            (f"extreme/{one}", {**TYPICAL, "rare_excess_loss": -1 + 0.01 * n})
            for one in ("clip", "no_clip")
            for n in noise
        ]
        runs = [MadeRun(name, seed % 10, summary) for seed, (name, summary) in enumerate(made)]
        (claim,) = (claim for claim in claims() if f"{claim.setup}: {claim.name}" == name)
        assert decide_claims([claim], StudyEvidence(runs), lambda _: "registered")[0].outcome is Outcome.REFUTED


@pytest.mark.parametrize("setup", ["script", "repaired"])
def test_where_nothing_collapses_nothing_is_prevented(setup: str) -> None:
    """At 99:1 the dimension stays where it is in both arms, and this used to be called EQUIVALENT."""
    name, arm = f"{setup}: clipping prevents representation collapse, 99:1", "extreme/no_clip"
    arm = arm if setup == "script" else f"learnable/{arm}"
    verdict = told({})[name]
    assert verdict.outcome is Outcome.INVALID and "representations collapse without clipping" in verdict.reason
    collapsed = {arm: {"effective_dim_change": -2 * DIMENSIONS}}
    assert told(collapsed)[name].outcome in (Outcome.SUPPORTED, Outcome.INCONCLUSIVE)
    assert told({arm: {"effective_dim_change": -4 * DIMENSIONS}})[name].outcome is Outcome.SUPPORTED


def test_the_margin_of_a_collapse_is_what_another_draw_of_the_weights_changes() -> None:
    drawn = np.array([float(effective_dimension(initial_weights(seed, 4, 16)["embedding"])) for seed in range(2000)])
    assert drawn.std() == pytest.approx(DIMENSIONS, abs=0.005) and drawn.mean() == pytest.approx(2.71, abs=0.01)


def quoted_lines(origin: str) -> set[int]:
    return {int(number) for number in re.findall(r"\d+", origin.split("(")[0].split(":")[0].removeprefix("script 000"))}


def test_origins_name_lines_and_panels_of_the_script() -> None:
    for claim in claims():
        assert claim.origin.startswith("script 000, line")
        assert quoted_lines(claim.origin) and quoted_lines(claim.origin) <= set(SCRIPT_LINES), claim.origin
        assert all(row in PANELS for row in re.findall(r"(\w+) row of panels", claim.origin))


@pytest.mark.skipif(not SCRIPT.is_dir(), reason="the research scripts are not here")
def test_the_quoted_lines_say_what_the_claims_say() -> None:
    (path,) = SCRIPT.glob("000_*.txt")
    lines = path.read_text().splitlines()
    for number, words in SCRIPT_LINES.items():
        assert words in lines[number - 1], number
    rows = [re.search(r"gs\[(\d), 0\]", line) for line in lines]
    starts = {int(found.group(1)): index for index, found in enumerate(rows) if found}
    for name, plotted in PANELS.items():
        start = starts[("first", "second", "third", "fourth", "fifth").index(name)]
        assert plotted in "\n".join(lines[start : start + 9])


@pytest.fixture(scope="module")
def script_runs(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The script's own runs: its four arms at its seed."""
    return kymograph.run("clipping", seeds=[42], out=tmp_path_factory.mktemp("printed"), quiet=True)


@pytest.mark.slow
def test_everything_that_the_script_prints_can_be_had(script_runs: Store, golden: Path, tmp_path: Path) -> None:
    reference = json.loads((golden / "clipping_script_seed42.json").read_text())["summary"]
    path = kymograph.export(script_runs, "script", tmp_path / "printed.json", seed=42)
    printed = json.loads(path.read_text())
    assert set(printed) == {"extreme", "moderate"}
    for imbalance, numbers in printed.items():
        for key in ("weight_norm_std", "weight_change_max", "grad_norm_max", "effective_dim_std", "final_rare_acc"):
            assert numbers[key] == pytest.approx(reference[imbalance][key], rel=1e-4, abs=1e-12), key
        assert numbers["clipping_ratio"] == pytest.approx(reference[imbalance]["grad_norm_max"]["no_clip"], rel=1e-4)
        dims, accuracy = reference[imbalance]["effective_dim_std"], reference[imbalance]["final_rare_acc"]
        assert (numbers["prediction_2"] == "SUPPORTED") == (dims["no_clip"] > dims["with_clip"])
        assert (numbers["prediction_4"] == "SUPPORTED") == (accuracy["with_clip"] >= accuracy["no_clip"])
    with pytest.raises(kymograph.KymographError, match="'moderate/no_clip' is missing"):
        kymograph.export(script_runs.select(arms=["extreme/no_clip", "extreme/clip"]), "script", path, seed=42)


@pytest.mark.slow
def test_no_verdict_rests_on_a_ceiling_a_floor_or_identical_numbers(tmp_path: Path) -> None:
    """The study as `kymograph reproduce` runs it."""
    for arms in (None, ["learnable/*"]):
        kymograph.run("clipping", n_seeds=10, arms=arms, out=tmp_path, quiet=True)
    verdicts = judge(tmp_path)
    assert len(verdicts) == len(claims())
    for verdict in verdicts:
        if verdict.claim.left.measure.name in ("final_rare_acc", "rare_excess_loss"):
            assert verdict.outcome is Outcome.INVALID, "in the script's data nobody could learn the rare class"
            continue
        if verdict.claim.left.measure.name == "effective_dim_change":
            collapses = verdict.claim.setup == "script" and "80:20" in verdict.claim.name
            assert (verdict.outcome is Outcome.INVALID) is not collapses, "elsewhere there is no collapse to prevent"
            continue
        assert verdict.outcome is not Outcome.INVALID, verdict.reason
        assert verdict.n == 10
        for numbers in ([point.left for point in verdict.points], [point.value for point in verdict.points]):
            assert max(Counter(numbers).values()) <= 2, (verdict.claim.name, numbers)
