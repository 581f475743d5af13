"""Direct feedback alignment (Nokland, 2016, arXiv:1609.01596), handed to whole blocks.

The error of the output, e = softmax(z) - onehot(y), goes to every block through a fixed random matrix of its own:
a_l = B_l e. Block l descends <f_l, a_l>; inside the block the gradient is exact, between blocks nothing flows. The
read-out gets its exact gradient, the embed the signal of B_0, which it shares with block 0.

All parts use the weights from before the step, so one forward pass serves them all: the graph is cut between blocks
while it is built, and a single backward call starts from every block's output at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kymograph.models.blocks import BlockNetwork
from kymograph.rules.base import Credit

LAW = "N(0, 1) / sqrt(classes)"


def draw_feedback(draw: torch.Generator, widths: Sequence[int], classes: int) -> list[Tensor]:
    """Returns one matrix B_l (width_l, classes) per block, drawn one after the other."""
    return [torch.randn(width, classes, generator=draw) / classes**0.5 for width in widths]


def feedback_hash(feedback: Sequence[Tensor]) -> str:
    """Returns a hash of the matrices, to know them again."""
    total = hashlib.sha256()
    for matrix in feedback:
        total.update(repr(tuple(matrix.shape)).encode() + matrix.cpu().numpy().tobytes())
    return total.hexdigest()[:16]


def output_error(logits: Tensor, y: Tensor) -> Tensor:
    """Returns the per-sample gradient of the cross-entropy at the logits, softmax(z) - onehot(y), (B, classes)."""
    error = logits.detach().softmax(-1)
    error[torch.arange(len(y), device=y.device), y] -= 1.0
    return error


def unit_rms(credit: Tensor) -> Tensor:
    """Returns each row of ``credit`` (B, d) divided by its RMS, with the script's 1e-6 in the denominator."""
    return credit / (credit.square().mean(-1, keepdim=True).sqrt() + 1e-6)


class DirectFeedback:
    """DFA with its parts as switches.

    Args:
        feedback: the matrices B_l, (width, classes) each.
        normalise: whether each sample's credit is divided by its RMS, which removes the size of its error.
        penalty: lambda; the block's loss gets lambda times the mean of ||f_l||^2 on top (0: vanilla DFA).
    """

    def __init__(self, feedback: Sequence[Tensor], normalise: bool = True, penalty: float = 0.0) -> None:
        self.feedback, self.normalise, self.penalty = list(feedback), normalise, penalty

    def credit(self, error: Tensor, block: int) -> Tensor:
        """Returns the signal for ``block`` before it is spread over places, (B, width)."""
        signal = error @ self.feedback[block].T
        return unit_rms(signal) if self.normalise else signal

    def backward(self, flat: Any, x: Tensor, y: Tensor) -> Credit:
        """Fills the gradients of all parts from one forward pass."""
        net: BlockNetwork = flat.net
        flat.gradients.zero_()
        start = net.embed(x)
        h, outputs = start.detach(), []
        for block in net.blocks:
            outputs.append(block(h))
            h = net.join(h, outputs[-1].detach())
        logits = net.readout(h)
        loss = torch.nn.functional.cross_entropy(logits, y)
        error = output_error(logits, y) / len(y)  # the mean over the batch
        signals = []
        for number, output in enumerate(outputs):
            signal = net.spread(self._per_batch(error, number, len(y)), output)
            if self.penalty:
                signal = signal + (2 * self.penalty / len(y)) * output.detach()
            signals.append(signal)
        at_embed = net.spread(self._per_batch(error, 0, len(y)), start)
        torch.autograd.backward([loss, *outputs, start], [None, *signals, at_embed])
        return Credit(loss.detach()[None], tuple(signals))

    def _per_batch(self, error: Tensor, block: int, size: int) -> Tensor:
        # Normalised credit has no memory of the error's scale, so the mean over the batch is taken afterwards.
        return self.credit(error * size, block) / size if self.normalise else self.credit(error, block)
