"""Does a rule's credit do what a gradient does? Two tests that need no angle.

*Perturbation correlation*: a point of the stream is moved a little, at random; the change in loss that the credit
predicts, <a, delta>, is compared with the actual one. *Descent*: a short step of the blocks against what the rule hands
them must lower the loss. Everything runs in float64 on a copy, so that small changes are not lost in rounding.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from kymograph.models.blocks import BlockNetwork
from kymograph.models.flat import FlatNetwork
from kymograph.rules.base import Rule


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
    found = torch.empty(len(credits), len(twin.blocks), dtype=torch.float64)
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
                found[number, block] = _correlation(predicted, changes)
    return found


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
