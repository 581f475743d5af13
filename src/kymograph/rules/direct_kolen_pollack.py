"""Direct Kolen-Pollack, DKP (Webster, Choi and Ahn, 2021): DFA whose matrices learn as a read-out of their block would.

A linear read-out from h_l to the outputs has the gradient e h_l^T; B_l, its transpose, takes the step of that read-out,

    B_l <- (1 - eta decay) B_l - eta h_l e^T   (the mean over the batch),

with the learning rate and the weight decay of the optimizer that the rule is attached to.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.rules.base import Credit, Setup
from kymograph.rules.direct import DirectFeedback, spread
from kymograph.rules.feedback import LAW, Matrices, feedback_for

PART = {
    "name": "dkp",
    "order": 14,
    "about": "direct Kolen-Pollack: direct feedback alignment whose matrices are learned",
    "options": ("normalise",),
    "acts_on": "blocks",
    "learns": True,
}


class DirectKolenPollack(DirectFeedback):
    """DFA whose B_l is learned; needs `attach`."""

    title = "dkp"
    follows = True
    pending: Matrices
    """The mean of h_l e^T over the last batch, for the embed and every block."""

    def __init__(self, net: nn.Module, feedback: Iterable[Tensor], **options: Any) -> None:
        super().__init__(net, feedback, **options)
        if self.embed_feedback is None:
            raise KymographError("dkp learns one matrix per part; give the embed its own as embed_feedback=")
        self.pending = Matrices([torch.zeros_like(matrix) for matrix in (self.embed_feedback, *self.feedback)])

    def backward(self, x: Tensor, y: Any, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of all parts; what the matrices learn from is accumulated or replaced with them."""
        if not accumulate or all(own.grad is None for own in self.net.parameters()):
            for one in self.pending:
                one.zero_()
        return super().backward(x, y, accumulate=accumulate)

    def learn_from(self, error: Tensor, points: list[Tensor]) -> None:
        """Correlates every point of the stream with the output errors, over the positions that receive credit."""
        for total, point in zip(self.pending, points, strict=True):
            with torch.enable_grad():
                matrix = torch.zeros_like(total, requires_grad=True)
                # Spreading is linear in the matrix, so this gradient is h e^T, gathered from where credit would go.
                reach = (spread(self.net, error @ matrix.T, point.detach()) * point.detach()).sum()
                (gradient,) = torch.autograd.grad(reach, matrix)
            total += gradient

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Takes one step with every matrix."""
        self.following.note_update()
        rates = self.following.rates(next(own for own in self.net.parameters() if own.requires_grad), self.title)
        if rates is None:
            raise KymographError("dkp follows an optimizer that does not train its network; attach the one that does")
        for matrix, gradient in zip((self.matrix_of_embed(), *self.feedback), self.pending, strict=True):
            matrix.mul_(1 - rates.lr * rates.decay).sub_(gradient, alpha=rates.lr)
            gradient.zero_()


def build(net: nn.Module, setup: Setup, *, normalise: bool = False) -> DirectKolenPollack:
    """Returns the rule with its initial matrices drawn for the network."""
    blocks, embed = feedback_for(net, setup)
    return DirectKolenPollack(net, blocks, normalise=normalise, embed_feedback=embed, loss=setup.loss, law=LAW)
