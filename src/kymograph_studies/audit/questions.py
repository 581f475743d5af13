"""The questions of an audit: for each, the numbers of a trained network, a threshold, and PASS, FAIL or CANNOT TELL.

Two of them ask, without any angle, whether a rule's credit does what a gradient does. *Perturbation correlation*: a
point of the stream is moved a little, at random; the change in loss that the credit predicts, <a, delta>, is compared
with the actual one. *Descent*: a short step of the blocks against what the rule hands them must lower the loss. Both
run in float64 on a copy, so that small changes are not lost in rounding.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

import kymograph as ky
from kymograph._statistics.intervals import normal_interval
from kymograph._statistics.p_values import monte_carlo_p
from kymograph.quantities import evaluation_mode, norms
from kymograph_studies.analysis.alarms import GRADIENT, GROWTH, SENSITIVITY, growth_per_block
from kymograph_studies.analysis.flow import float64_cosines, flow
from kymograph_studies.analysis.metrics import median_norm
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules.backprop import Backprop
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.rules.feedback import draw_feedback
from kymograph_studies.rules.losses import output_error

DRAWS = 19  # the fewest with which p can be 0.05
ALPHA = 0.05
LARGEST_MOVES = 2**20
SAME_DIRECTION = 0.99
"""Smallest cosine of the float32 gradient with the float64 one that counts as the same direction."""


@dataclass(frozen=True)
class Answer:
    """One question's answer: passed, failed, or None if nothing can be said."""

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
        alarm: the epoch at which the growth alarm was first raised, if it was.
    """
    growth = growth_per_block(norms)
    text = f"growth per block {growth:.3g}, ||h_L|| {norms[-1]:.3g}"
    if start:
        text += f" ({norms[-1] / start:.3g} times its start)"
    passed = None if math.isnan(growth) else growth <= GROWTH and alarm is None
    why = "" if alarm is None else f"growth alarm since epoch {alarm}"
    numbers = {"growth_per_block": growth, "h_L": norms[-1], "h_L_start": start, "alarm_epoch": alarm}
    return Answer("scale stability", passed, text, f"growth per block at most {GROWTH:g}", why, numbers)


def reference(
    net: BlockNetwork, x: Tensor, y: Tensor, alarms: Mapping[str, int | None] | None
) -> tuple[Answer, list[float]]:
    """Is the gradient that credit is compared with large enough, and is its direction more than rounding?

    Returns the answer and the medians of ||h_l||. The published threshold, 1e-7 for the gradient of a mean loss over
    1,024 images, also fires when a network is simply right; it is reported, but the decision is made per unit of error.
    """
    points, logits, gradients = flow(net, x, y)
    hidden = [float(median_norm(net.measured(point))) for point in points]
    measured = [net.measured(gradient) for gradient in gradients]
    sizes = [norms(vectors) for vectors in measured]
    errors = norms(output_error(logits, y))
    sensitivity = float((sizes[-1] / errors).nanmedian())
    raw = float(sizes[-1].median()) / len(y)
    agreement = [float(cosines.nanmedian()) for cosines in float64_cosines(net, measured, x, y)]
    worst = float(np.nanmin(agreement)) if not np.isnan(agreement).all() else math.nan
    scale_free = [float((size / errors).nanmedian()) * norm for size, norm in zip(sizes, hidden, strict=True)]
    text = (
        f"||g_L||/||e|| {sensitivity:.2g}, float64 cosine {worst:.4f}, "
        f"||h_L|| ||g_L||/||e|| {scale_free[-1]:.2g}, published ||g_L|| {raw:.2g}"
    )
    threshold = f"||g_L||/||e|| at least {SENSITIVITY:.2g}, float64 cosine at least {SAME_DIRECTION:g}"
    raised = {name: epoch for name, epoch in (alarms or {}).items() if name != "growth" and epoch is not None}
    passed = None if math.isnan(sensitivity) else sensitivity >= SENSITIVITY and worst >= SAME_DIRECTION
    reasons = [f"{name} alarm since epoch {epoch}" for name, epoch in raised.items()]
    unknown = [f"h_{point}" for point, cosine in enumerate(agreement) if math.isnan(cosine)]
    if passed and unknown:
        passed = None
        reasons.append(f"the gradient at {', '.join(unknown)} has no direction")
    if passed is False and worst >= SAME_DIRECTION:
        reasons.append("the gradient is too small, but float32 still resolves its direction")
    if passed and raw < GRADIENT:
        reasons.append("the gradient is below the published threshold of 1e-07 because the errors are small")
    numbers = {
        "g_L_per_error": sensitivity,
        "g_L_published_scale": raw,
        "published_threshold": GRADIENT,
        "float64_cosines": agreement,
        "scale_free": scale_free,
        "alarm_epochs": dict(alarms or {}),
    }
    return Answer("reference validity", passed, text, threshold, "; ".join(reasons), numbers), hidden


def cannot_tell(question: str, why: str) -> Answer:
    """Returns the answer CANNOT TELL, with its reason."""
    return Answer(question, None, "not measured", "none", why)


def depth_utility(correct: Tensor, frozen: Tensor | None, rungs: Mapping[int, float], why_not: str = "") -> Answer:
    """Does the network beat the same one with frozen blocks on the same test images?

    Args:
        correct: whether each test image was classified correctly, (n,).
        frozen: the same for the network whose blocks never learned; None if there is none.
        rungs: accuracy by the number of last blocks that learned, under the network's own rule.
        why_not: why there is no frozen baseline.
    """
    question = "depth utility"
    threshold = "95 % interval of the gain over frozen blocks, over test images of this seed, above 0"
    accuracy = float(correct.double().mean())
    if frozen is None:
        why = why_not or "there is no frozen baseline; audit a run made by this version, without --no-ladder"
        return Answer(question, None, f"accuracy {accuracy:.4f}", threshold, why, {"accuracy": accuracy})
    difference = correct.double() - frozen.double()
    gain = float(difference.mean())
    error = float(difference.std()) / math.sqrt(len(difference))
    low, high = normal_interval(gain, error)
    text = (
        f"accuracy {accuracy:.4f}, frozen blocks {float(frozen.double().mean()):.4f}: "
        f"gain {gain:+.4f} [{low:+.4f}, {high:+.4f}]"
    )
    why = ""
    if rungs:
        best = max(rungs, key=lambda rung: rungs[rung])
        steps = ", ".join(f"{rung}: {value:.3f}" for rung, value in sorted(rungs.items()))
        why = f"accuracy by number of last blocks that learn: {steps}; highest at {best}"
    numbers = {"accuracy": accuracy, "gain": gain, "interval": (low, high), "ladder": dict(rungs)}
    return Answer(question, low > 0, text, threshold, why, numbers)


def perturbation(net: BlockNetwork, feedback: Sequence[Tensor], x: Tensor, y: Tensor, seed: int) -> Answer:
    """Does the credit predict how the loss changes when a point of the stream is moved, better than fresh matrices do?

    Images share the matrices, so they are not replications: fresh matrices show what such credit gives by chance.
    A rule without matrices hands out the gradient, which is compared with random vectors.
    """
    with evaluation_mode(net), torch.no_grad():
        features = max(point[0].numel() for point in net.stream(x[:2]))
    few = min(len(y), max(64, LARGEST_MOVES // features))  # so that the moves fit in memory
    x, y = x[:few], y[:few]
    points, logits, gradients = flow(net, x, y)
    error = output_error(logits, y)

    def by_feedback(matrices: Sequence[Tensor]) -> Callable[[int], Tensor]:
        rule = DirectFeedback(net, [matrix.to(error) for matrix in matrices])
        return lambda block: net.spread(rule.direction(error, block), points[block + 1])

    def at_random(number: int) -> Callable[[int], Tensor]:
        return lambda block: torch.randn(
            gradients[block + 1].shape, generator=ky.generator(seed, "audit", "chance", str(number), str(block))
        )

    def exact(block: int) -> Tensor:
        return gradients[block + 1]

    if feedback:
        by_rule, nulls = by_feedback(feedback), [by_feedback(fresh) for fresh in _fresh(feedback, seed)]
    else:
        by_rule, nulls = exact, [at_random(number) for number in range(DRAWS)]
    table = perturbation_correlation(net, x, y, [by_rule, exact, *nulls], ky.generator(seed, "audit", "moves"))
    means = table.mean(1)  # over the blocks
    rho, control, null = float(means[0]), float(means[1]), means[2:]
    p = monte_carlo_p(rho, null.tolist())
    spread = f"null {float(null.mean()):+.4f} +- {float(null.std()):.4f}"
    text = f"rho {rho:+.4f} (the gradient itself {control:+.4f}), {spread}"
    numbers = {"rho": rho, "by_point": table[0].tolist(), "gradient": control, "null": null.tolist(), "p": p}
    passed = None if math.isnan(p) else p <= ALPHA
    return Answer("perturbation correlation", passed, f"{text}, p = {p:.3f}", _beyond(feedback), "", numbers)


def step(
    net: BlockNetwork, feedback: Sequence[Tensor], rms: bool, penalty: float, x: Tensor, y: Tensor, seed: int
) -> Answer:
    """Does a short step of the blocks in the rule's direction lower the loss, more than fresh matrices would?"""

    def by_feedback(matrices: Sequence[Tensor]) -> Callable[[BlockNetwork], Rule]:
        exact = [matrix.cpu().double() for matrix in matrices]
        return lambda twin: DirectFeedback(twin, exact, normalise=rms, penalty=penalty)

    generator = ky.generator(seed, "audit", "step")
    if feedback:
        nulls = [by_feedback(fresh) for fresh in _fresh(feedback, seed)]
        changes = descent(net, [by_feedback(feedback), Backprop, *nulls], x, y, generator)
        null = changes[2:-1]
    else:
        changes = descent(net, [Backprop, Backprop], x, y, generator)
        null = [changes[-1], *(descent(net, [], x, y, generator)[-1] for _ in range(DRAWS - 1))]
    change, best, chance = changes[0], changes[1], changes[-1]
    p = monte_carlo_p(change, null, "less")
    text = (
        f"loss {change:+.2e} (the gradient's own step of that length {best:+.2e}, a random one {chance:+.2e}), "
        f"p = {p:.3f}"
    )
    numbers = {"change": change, "exact": best, "random": chance, "null": null, "p": p}
    passed = None if math.isnan(p) else change < 0 and p <= ALPHA
    return Answer("descent", passed, text, f"the loss falls, {_beyond(feedback)}", "", numbers)


def _fresh(feedback: Sequence[Tensor], seed: int) -> list[list[Tensor]]:
    """Returns `DRAWS` sets of fresh matrices of the same shapes."""
    widths, classes = [len(matrix) for matrix in feedback], feedback[0].shape[1]
    return [draw_feedback(ky.generator(seed, "audit", "fresh", str(n)), widths, classes) for n in range(DRAWS)]


def _beyond(feedback: Sequence[Tensor]) -> str:
    kind = "fresh matrices" if feedback else "random directions"
    return f"p at most {ALPHA:g} against {DRAWS} draws of {kind}"


def perturbation_correlation(
    net: BlockNetwork,
    x: Tensor,
    y: Tensor,
    credits: Sequence[Callable[[int], Tensor]],
    draw: torch.Generator,
    moves: int = 8,
    size: float = 1e-4,
) -> Tensor:
    """Returns the correlation over images and moves of predicted and actual change of the loss, (credits, L).

    Args:
        credits: each maps a block's index to what a rule hands it for every image, a tensor like h_{l+1}, on which it
            acts. All are tested on the same moves.
        moves: random moves per image.
        size: length of a move relative to ||h|| of its image.

    Each image's predictions and changes are scaled to unit RMS over its moves, so that all images count equally: the
    gradient itself gives 1, random credit 0 on average.
    """
    twin = copy.deepcopy(net).cpu().double().eval()
    labels = y.cpu()
    correlations = torch.empty(len(credits), len(twin.blocks), dtype=torch.float64)
    with torch.no_grad():
        points = twin.stream(x.cpu().double())
        for block in range(len(twin.blocks)):
            point = points[block + 1]
            before = _losses(twin, point, block + 1, labels)
            steps, actual = [], []
            for _ in range(moves):
                noise = torch.randn(point.shape, generator=draw, dtype=torch.float64)
                steps.append(noise * (size * _lengths(point) / _lengths(noise)))
                actual.append(_losses(twin, point + steps[-1], block + 1, labels) - before)
            changes = torch.stack(actual, 1)  # (images, moves)
            for number, credit in enumerate(credits):
                signal = credit(block).cpu().double()
                predicted = torch.stack([(signal * step).flatten(1).sum(1) for step in steps], 1)
                correlations[number, block] = _correlation(predicted, changes)
    return correlations


def descent(
    net: BlockNetwork,
    rules: Sequence[Callable[[BlockNetwork], Rule]],
    x: Tensor,
    y: Tensor,
    draw: torch.Generator,
) -> list[float]:
    """Returns the change of the mean loss when the blocks step against each rule's direction, and last, at random.

    Every step has the same length, a thousandth of the norm of the blocks' weights; other parts stay fixed. ``rules``
    are functions that make a rule on a copy of the network, which is in float64 on the CPU.
    """
    twin = copy.deepcopy(net).cpu().double().eval()
    images, labels = x.cpu().double(), y.cpu()
    flat = FlatNetwork(twin)
    spans = flat.block_spans
    start = flat.values.clone()
    length = 1e-3 * float(torch.cat([start[0, span] for span in spans]).norm())

    def loss() -> float:
        with torch.no_grad():
            return float(torch.nn.functional.cross_entropy(twin(images), labels))

    before = loss()

    def change(direction: Tensor) -> float:
        norm = float(torch.cat([direction[0, span] for span in spans]).norm())
        if norm == 0.0:
            return 0.0
        for span in spans:
            flat.values[0, span] -= direction[0, span] * (length / norm)
        after = loss()
        flat.values.copy_(start)
        return after - before

    changes = []
    for rule in rules:
        rule(twin).backward(images, labels, accumulate=False)
        changes.append(change(flat.gradients.clone()))
    return [*changes, change(torch.randn(start.shape, generator=draw, dtype=torch.float64))]


def _losses(net: BlockNetwork, point: Tensor, first: int, y: Tensor) -> Tensor:
    """Returns each image's loss (B,) when the stream continues from ``point`` as h_first."""
    _, points = net.walk(point, first)
    return torch.nn.functional.cross_entropy(net.readout(points[-1]), y, reduction="none")


def _lengths(tensor: Tensor) -> Tensor:
    """Returns each image's norm, shaped to broadcast against the tensor."""
    lengths: Tensor = torch.linalg.vector_norm(tensor.flatten(1), dim=1)
    return lengths.view(-1, *[1] * (tensor.dim() - 1))


def _correlation(predicted: Tensor, actual: Tensor) -> float:
    """Returns the correlation of two tables (images, moves) after each row is scaled to unit RMS; NaN rows drop out."""
    rows = []
    for table in (predicted, actual):
        largest = table.abs().amax(1, keepdim=True)
        scaled = table / torch.where(largest > 0, largest, torch.nan)
        rows.append(scaled / scaled.square().mean(1, keepdim=True).sqrt())
    whole = ~(rows[0].isnan().any(1) | rows[1].isnan().any(1))
    if not bool(whole.any()):
        return float("nan")
    return float(torch.corrcoef(torch.stack([rows[0][whole].flatten(), rows[1][whole].flatten()]))[0, 1])
