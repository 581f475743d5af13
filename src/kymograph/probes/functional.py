"""Does a rule's credit do what a gradient does? Two tests that need no angle.

*Perturbation correlation*: a point of the stream is moved a little, at random; the credit predicts by how much the
loss changes, <a, delta>, and the network says by how much it did. *Descent*: a short step of the blocks against what
the rule hands them must lower the loss. Everything runs in float64 on a copy, so that small changes are not rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from kymograph.models.blocks import BlockNetwork, FlatNetwork
from kymograph.rules.credit import Rule


def perturbation_correlation(
    net: BlockNetwork,
    x: Tensor,
    y: Tensor,
    credits: Sequence[Tensor],
    draw: torch.Generator,
    moves: int = 8,
    size: float = 1e-4,
) -> list[float]:
    """Returns, for h_1..h_L, the correlation over images and moves of predicted and actual change of the loss.

    Args:
        credits: what the rule hands to block l for every image, as a tensor like h_{l+1}: it acts on h_{l+1}.
        moves: random moves per image.
        size: length of a move relative to ||h|| of its image.

    Each image's prediction and change are divided by the length of its own gradient and credit, so that every image
    counts alike: the gradient itself gives 1, random credit 0 on average.
    """
    twin = copy.deepcopy(net).cpu().double().eval()
    with torch.no_grad():
        points = twin.stream(x.cpu().double())
        found = []
        for place, credit in enumerate(credits, start=1):
            signal = credit.cpu().double()
            point = points[place]
            before = _losses(twin, point, place, y.cpu())
            predicted, actual = [], []
            for _ in range(moves):
                noise = torch.randn(point.shape, generator=draw, dtype=torch.float64)
                move = noise * (size * _lengths(point) / _lengths(noise))
                predicted.append((signal * move).flatten(1).sum(1))
                actual.append(_losses(twin, point + move, place, y.cpu()) - before)
            found.append(_correlation(torch.stack(predicted, 1), torch.stack(actual, 1)))
    return found


@dataclass(frozen=True)
class Descent:
    """What one short step of the blocks did to the loss."""

    change: float
    """Change of the mean loss after the rule's step."""
    exact: float
    """The same after a step of equal length against the exact gradient."""
    random: float
    """The same after a step of equal length in a random direction."""


def descent(net: BlockNetwork, rule: Rule, exact: Rule, x: Tensor, y: Tensor, draw: torch.Generator) -> Descent:
    """Returns how the mean loss changes when the blocks step against the rule's direction; other parts stay.

    The step is a thousandth of the blocks' weights in length, the same for the rule, the exact gradient and chance.
    The rules must work in float64 on the CPU.
    """
    twin = copy.deepcopy(net).cpu().double().eval()
    images, labels = x.cpu().double(), y.cpu()
    flat = FlatNetwork(twin)
    spans = [span for name, span in flat.spans.items() if name.startswith("blocks.")]
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
    for one in (rule, exact):
        one.backward(flat, images, labels)
        changes.append(change(flat.gradients.clone()))
    noise = torch.randn(start.shape, generator=draw, dtype=torch.float64)
    return Descent(changes[0], changes[1], change(noise))


def _losses(net: BlockNetwork, point: Tensor, place: int, y: Tensor) -> Tensor:
    """Returns each image's loss (B,) when the stream goes on from ``point`` as h_place."""
    for block in list(net.blocks)[place:]:
        point = net.join(point, block(point))
    return torch.nn.functional.cross_entropy(net.readout(point), y, reduction="none")


def _lengths(tensor: Tensor) -> Tensor:
    """Returns each image's norm, shaped so that it multiplies the tensor."""
    norms = torch.linalg.vector_norm(tensor.flatten(1), dim=1)
    return norms.view(-1, *[1] * (tensor.dim() - 1))


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
