"""The questions an audit asks of a trained network, and how each is answered from numbers and a threshold."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from kymograph import streams
from kymograph.models.blocks import BlockNetwork
from kymograph.probes import measures
from kymograph.probes.functional import Descent, descent, perturbation_correlation
from kymograph.rules.baselines import BlockBackprop
from kymograph.rules.direct import DirectFeedback, output_error
from kymograph.studies.snapshot.alarms import GRADIENT, GROWTH, SENSITIVITY, growth_per_block
from kymograph.studies.snapshot.diagnose import flow, in_float64

SAME_DIRECTION = 0.99
"""Smallest cosine of the float32 gradient with the float64 one that counts as the same direction."""


@dataclass(frozen=True)
class Answer:
    """One question's answer: passed, failed, or (None) not to be told."""

    question: str
    passed: bool | None
    found: str
    threshold: str
    why: str = ""
    numbers: Mapping[str, Any] = field(default_factory=dict)

    @property
    def word(self) -> str:
        """PASS, FAIL or CANNOT TELL."""
        return {True: "PASS", False: "FAIL", None: "CANNOT TELL"}[self.passed]


def scale(norms: Sequence[float], start: float | None, alarm: int | None) -> Answer:
    """Is the stream's scale stable from block to block, now and at every measured epoch?

    Args:
        norms: medians of ||h_l||, l = 0..L, of the network as it is.
        start: ||h_L|| before training, if known.
        alarm: the epoch at which the growth alarm first rang, if it did.
    """
    growth = growth_per_block(norms)
    found = f"growth per block {growth:.3g}, ||h_L|| {norms[-1]:.3g}"
    if start:
        found += f" ({norms[-1] / start:.3g} times its start)"
    passed = None if math.isnan(growth) else growth <= GROWTH and alarm is None
    why = "" if alarm is None else f"growth alarm since epoch {alarm}"
    numbers = {"growth_per_block": growth, "h_L": norms[-1], "h_L_start": start, "alarm_epoch": alarm}
    return Answer("scale stability", passed, found, f"growth per block at most {GROWTH:g}", why, numbers)


def reference(
    net: BlockNetwork, x: Tensor, y: Tensor, alarms: Mapping[str, int | None] | None
) -> tuple[Answer, list[float]]:
    """Is the gradient that credit is compared with large enough, and is its direction more than rounding?

    Returns the answer and the medians of ||h_l||. The published threshold, 1e-7 for the gradient of a mean loss over
    1,024 images, also fires when a network is simply right; it is told beside, and decided is per unit of error.
    """
    points, logits, gradients = flow(net, x, y)
    hidden = [_medians(net.measured(point)) for point in points]
    sizes = [torch.linalg.vector_norm(net.measured(gradient).double(), dim=-1) for gradient in gradients]
    errors = torch.linalg.vector_norm(output_error(logits, y).double(), dim=-1)
    sensitivity = float((sizes[-1] / errors).nanmedian())
    raw = float(sizes[-1].median()) / len(y)
    exact = in_float64(net, x, y)[2]
    agreement = [
        float(measures.cosine(net.measured(g), net.measured(g64)).nanmedian())
        for g, g64 in zip(gradients, exact, strict=True)
    ]
    worst = float(np.nanmin(agreement)) if not np.isnan(agreement).all() else math.nan
    scale_free = [float((size / errors).nanmedian()) * norm for size, norm in zip(sizes, hidden, strict=True)]
    found = (
        f"||g_L||/||e|| {sensitivity:.2g}, float64 cosine {worst:.4f}, "
        f"||h_L|| ||g_L||/||e|| {scale_free[-1]:.2g}, published ||g_L|| {raw:.2g}"
    )
    threshold = f"||g_L||/||e|| at least {SENSITIVITY:.2g}, float64 cosine at least {SAME_DIRECTION:g}"
    rang = {name: epoch for name, epoch in (alarms or {}).items() if name != "growth" and epoch is not None}
    passed = None if math.isnan(sensitivity) else sensitivity >= SENSITIVITY and worst >= SAME_DIRECTION
    reasons = [f"{name} alarm since epoch {epoch}" for name, epoch in rang.items()]
    if passed is False and worst >= SAME_DIRECTION:
        reasons.append("float32 still has its direction: what is gone is its size")
    if passed and raw < GRADIENT:
        reasons.append("the published threshold of 1e-07 is undercut because the errors are small")
    numbers = {
        "g_L_per_error": sensitivity,
        "g_L_published_scale": raw,
        "published_threshold": GRADIENT,
        "float64_cosines": agreement,
        "scale_free": scale_free,
        "alarm_epochs": dict(alarms or {}),
    }
    return Answer("reference validity", passed, found, threshold, "; ".join(reasons), numbers), hidden


def depth_utility(hits: Tensor, frozen: Tensor | None, rungs: Mapping[int, float]) -> Answer:
    """Does the network beat the same one with frozen blocks on the same test images?

    Args:
        hits: whether each test image was classified right, (n,).
        frozen: the same of the network whose blocks never learned; None if there is none.
        rungs: accuracy by the number of last blocks that learned, under the network's own rule.
    """
    question, threshold = "depth utility", "95 % interval of the gain over frozen blocks above 0"
    accuracy = float(hits.double().mean())
    if frozen is None:
        why = "there is no frozen baseline; audit a run of ours and leave --no-ladder away"
        return Answer(question, None, f"accuracy {accuracy:.4f}", threshold, why, {"accuracy": accuracy})
    difference = hits.double() - frozen.double()
    gain = float(difference.mean())
    error = float(difference.std()) / math.sqrt(len(difference))
    low, high = gain - 1.96 * error, gain + 1.96 * error
    found = (
        f"accuracy {accuracy:.4f}, frozen blocks {float(frozen.double().mean()):.4f}: "
        f"gain {gain:+.4f} [{low:+.4f}, {high:+.4f}]"
    )
    why = ""
    if rungs:
        best = max(rungs, key=lambda rung: rungs[rung])
        steps = ", ".join(f"{rung}: {value:.3f}" for rung, value in sorted(rungs.items()))
        why = f"accuracy by last blocks that learn: {steps}; the most at {best}"
    numbers = {"accuracy": accuracy, "gain": gain, "interval": (low, high), "ladder": dict(rungs)}
    return Answer(question, low > 0, found, threshold, why, numbers)


def perturbation(net: BlockNetwork, feedback: Sequence[Tensor], x: Tensor, y: Tensor, seed: int) -> Answer:
    """Does the credit foretell how the loss changes when a point of the stream is moved?."""
    points, logits, gradients = flow(net, x, y)
    exact = gradients[1:]
    if feedback:
        rule = DirectFeedback(feedback, normalise=False)
        error = output_error(logits, y)
        credits = [net.spread(rule.credit(error, number), points[number + 1]) for number in range(len(net.blocks))]
    else:
        credits = exact
    chance = [torch.randn(g.shape, generator=streams.generator(seed, "audit", "chance")) for g in exact]

    def correlations(signals: Sequence[Tensor]) -> list[float]:
        return perturbation_correlation(net, x, y, signals, streams.generator(seed, "audit", "moves"))

    mine, best, none = correlations(credits), correlations(exact), correlations(chance)
    rho, control, null = float(np.mean(mine)), float(np.mean(best)), float(np.mean(none))
    bound = 3 / math.sqrt(8 * len(y) * len(mine))  # three standard errors of a correlation that is zero
    found = f"rho {rho:+.4f} (the gradient itself {control:+.4f}, random credit {null:+.4f})"
    numbers = {"rho": rho, "by_point": mine, "gradient": best, "random": none}
    return Answer("perturbation correlation", rho > bound, found, f"above {bound:.4f}", "", numbers)


def step(net: BlockNetwork, feedback: Sequence[Tensor], rms: bool, x: Tensor, y: Tensor, seed: int) -> Answer:
    """Does a short step of the blocks in the rule's direction lower the loss?"""
    exact = BlockBackprop()
    rule = DirectFeedback([matrix.cpu().double() for matrix in feedback], rms) if feedback else exact
    found: Descent = descent(net, rule, exact, x, y, streams.generator(seed, "audit", "step"))
    text = (
        f"loss {found.change:+.2e} (the gradient's own step of that length {found.exact:+.2e}, "
        f"a random one {found.random:+.2e})"
    )
    return Answer("descent", found.change < 0, text, "the loss falls", "", vars(found))


def _medians(vectors: Tensor) -> float:
    return float(torch.linalg.vector_norm(vectors.double(), dim=-1).median())
