"""What is known, or said, about the rule family, as claims; registered before the runs.

Margins. Accuracies differ from one point (0.01) on: less than the usual difference between two seeds of an arm is no
difference between rules, and no gain over head only. An update counts as aligned from a cosine of 0.1 above that of
fresh feedback: to first order, it then achieves a tenth of what the gradient does. A difference of two differences in
accuracy counts from two points on, one for each of them. Times differ from a factor of 1.5 on, the largest ratio of
neighbouring measurements once a run is under way. Alignment counts as given up if the cosine falls by 0.05, half of
what counts as aligned. Kolen-Pollack's angle is compared with the 10 degrees for which its theory gives the time, so
its margin is 0.
"""

from __future__ import annotations

import math

from kymograph import Check, Claim, Measure, Side
from kymograph_studies.rule_family.arms import DECAYS, EXACT, HEAD_ONLY, NETWORKS

ALIGNS = "arXiv:1411.0247: under feedback alignment the updates come to point along the gradient's"
SIGNS = "arXiv:1510.05067: feedback with the signs of the weights does as well as backpropagation"
MIRRORS = "arXiv:1904.05391: under Kolen-Pollack, feedback turns into the weights at the rate of the weight decay"
CONVOLUTION = "arXiv:1906.04554 and 2011.12428: direct feedback alignment fails on convolutions"
PHASES = "arXiv:2011.12428: under direct feedback alignment a network first aligns, then memorises"
TARGETS = "arXiv:1909.01311: hidden layers learn from projected targets"

STUDY = "rule-family"
POINT = 0.01
ALIGNED = 0.1
INTERACTION = 0.02
RATIO = 1.5
SACRIFICE = 0.05
LEARNS = 0.5
ACCURACY = Measure("test_accuracy")
HIDDEN = ("embed", "blocks.0", "blocks.1")
DEGREES = 10.0
"""The angle at which B counts as converged to W: the update then achieves 98 % of the exact one's effect in a layer."""


def steps_to_angle(lr: float, wd: float, degrees: float = DEGREES) -> int | None:
    """Returns the first step after which the angle of W and B should be at most ``degrees``; None if nothing decays.

    Under Kolen-Pollack (arXiv:1904.05391), B takes the same steps as W, and both decay by the factor 1 - lr wd at every
    step. So B - W shrinks by that factor, whatever is learned. At the start, W and B are independent and of the same
    norm, so the norm of B - W is sqrt(2) times that of W. If W keeps its norm, the sine of the angle between them is at
    most sqrt(2) (1 - lr wd)^t.

    >>> steps_to_angle(0.1, 0.1)
    209
    """
    shrinking = 1 - lr * wd
    if not 0 < shrinking < 1:
        return None
    return math.ceil(math.log(math.sin(math.radians(degrees)) / math.sqrt(2)) / math.log(shrinking))


def claims() -> list[Claim]:
    """Returns the claims of the family: seventeen, which ten seeds can decide together."""
    return [
        *(_aligns(part) for part in HIDDEN),
        *(_equals_bp(network) for network in ("mlp", "conv", "conv-bn")),
        *(_mirrors(arm) for arm in DECAYS),
        Claim(
            "DFA loses more on convolution than on the MLP", STUDY,
            "test accuracy of BP minus that of DFA is more than 2 points larger on convolution than on the MLP",
            Side("conv/bp", ACCURACY), Side("conv/dfa", ACCURACY), "greater", INTERACTION,
            interaction=(Side("mlp/bp", ACCURACY), Side("mlp/dfa", ACCURACY)),
            checks=(_learned("conv/bp"), _learned("mlp/bp")), origin=CONVOLUTION,
        ),
        Claim(
            "DFA's alignment peaks before half of the fit", STUDY,
            "on the MLP the alignment of DFA's updates peaks more than 1.5 times earlier than half of the fall of the "
            "log training loss is done",
            Side("mlp/dfa", Measure("alignment_peak_time")), Side("mlp/dfa", Measure("half_fit_time")),
            "less", RATIO, "log ratio", checks=(_fitted("mlp/dfa"),), origin=PHASES,
        ),
        Claim(
            "DFA gives up alignment as it fits", STUDY,
            "on the MLP the alignment of DFA's updates is more than 0.05 lower at the end than when half of the fit is "
            "done",
            Side("mlp/dfa", Measure("alignment_after_half_fit")),
            Side("mlp/dfa", Measure("alignment_at_half_fit")), "less", SACRIFICE, checks=(_fitted("mlp/dfa"),),
            origin=PHASES,
        ),
        *(_beats_head_only(network) for network in NETWORKS),
    ]  # fmt: skip


def _aligns(part: str) -> Claim:
    arm = "mlp/fa"
    return Claim(
        f"FA aligns at {part}", STUDY,
        f"on the MLP the cosine of FA's update of {part} with the gradient ends more than 0.1 above that of fresh "
        "feedback",
        Side(arm, Measure("alignment", "last", part)),
        Side(arm, Measure("alignment_null", "last", part)), "greater", ALIGNED, checks=(_learned(arm),),
        origin=ALIGNS,
    )  # fmt: skip


def _equals_bp(network: str) -> Claim:
    label = NETWORKS[network].label
    norm = "with batch norm" if network.endswith("-bn") else "without batch norm"
    return Claim(
        f"sign symmetry equals BP: {label}", STUDY,
        f"{norm}, test accuracy under uSF and under BP differ by less than a point",
        Side(f"{network}/usf", ACCURACY), Side(f"{network}/{EXACT}", ACCURACY), "equal", POINT,
        checks=(
            _learned(f"{network}/{EXACT}"),
            Check("BP is not at its ceiling", Side(f"{network}/{EXACT}", ACCURACY), most=1.0, strict=True),
            Check("head only leaves room", Side(f"{network}/{HEAD_ONLY}", ACCURACY), most=0.95),
        ),
        origin=SIGNS,
    )  # fmt: skip


def _mirrors(arm: str) -> Claim:
    decay, _ = DECAYS[arm]
    return Claim(
        f"Kolen-Pollack's feedback turns into the weights in time: decay {decay:g}", STUDY,
        f"at the step that rate and decay give, the largest angle of W and B over the layers is below {DEGREES:g} "
        "degrees",
        Side(arm, Measure("angle_at_theory_step")), DEGREES, "less", 0.0, checks=(_learned(arm),),
        origin=MIRRORS,
    )  # fmt: skip


def _beats_head_only(network: str) -> Claim:
    return Claim(
        f"DRTP beats head only: {NETWORKS[network].label}", STUDY,
        "test accuracy under DRTP is more than a point above that of head only",
        Side(f"{network}/drtp", ACCURACY), Side(f"{network}/{HEAD_ONLY}", ACCURACY), "greater", POINT,
        checks=(_learned(f"{network}/{EXACT}"),), origin=TARGETS,
    )  # fmt: skip


def _learned(arm: str) -> Check:
    """A network that has learned nothing is no evidence about a rule."""
    return Check(f"{arm} has learned", Side(arm, ACCURACY), least=LEARNS)


def _fitted(arm: str) -> Check:
    """Without a fit there is nothing that alignment could come before."""
    return Check("the training loss fell tenfold", Side(arm, Measure("loss_fall")), least=10.0)
