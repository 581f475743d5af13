"""Direct feedback alignment (Nokland, 2016, arXiv:1609.01596), handed to whole blocks.

The error of the output, e = softmax(z) - onehot(y), goes to every block through a fixed random matrix of its own:
a_l = B_l e. Block l descends <f_l, a_l>; inside the block the gradient is exact, between blocks nothing flows. The
read-out gets its exact gradient, the embed the signal of B_0, which it shares with block 0 unless their widths differ.

All parts use the weights from before the step, so one forward pass serves them all: the graph is cut between blocks
while it is built, and a single backward call starts from every block's output at once.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.rules.base import EXACT, BlockRule, Credit, LocalSignal, PlanLine, Setup
from kymograph.rules.feedback import LAW, Matrices, feedback_for
from kymograph.rules.losses import Loss, error_of
from kymograph.rules.normalised import unit_rms
from kymograph.shapes import Float

PART = {
    "name": "dfa",
    "order": 2,
    "about": "direct feedback alignment: the output error reaches every block through a random matrix",
    "options": ("normalise", "penalty"),
}


class DirectFeedback(BlockRule):
    """DFA with its parts as switches.

    Args:
        feedback: the matrices B_l, (width, classes) each.
        normalise: whether each sample's credit is divided by its RMS, which removes the size of its error.
        penalty: lambda; the block's loss gets lambda times the mean of ||f_l||^2 on top (0: vanilla DFA).
        embed_feedback: the embed's own matrix; None: it shares the one of block 0.
        law: the law that the matrices were drawn from, if it is known.
    """

    feedback: Matrices
    embed_feedback: Tensor | None

    def __init__(
        self,
        net: nn.Module,
        feedback: Iterable[Tensor],
        *,
        normalise: bool = True,
        penalty: float = 0.0,
        embed_feedback: Tensor | None = None,
        loss: Loss | None = None,
        law: str = "",
    ) -> None:
        super().__init__(net, loss)
        self.feedback_law = law
        self.register_buffer("embed_feedback", embed_feedback)
        self.feedback, self.normalise, self.penalty = Matrices(feedback), normalise, penalty
        if len(self.feedback) != len(self.net.blocks):
            raise KymographError(
                f"{len(self.net.blocks)} blocks need as many feedback matrices, not {len(self.feedback)}"
            )

    def credit(self, error: Float[Tensor, "batch classes"], block: int) -> Float[Tensor, "batch width"]:
        """Returns B_l e for every sample, normalised if the rule does so, before it is spread over positions."""
        return self._normalised(self.direction(error, block))

    def direction(self, error: Float[Tensor, "batch classes"], block: int) -> Float[Tensor, "batch width"]:
        """Returns B_l e for every sample."""
        return error @ self.feedback[block].T

    def backward(self, x: Tensor, y: Tensor, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of all parts, from one forward pass."""
        self.start_gradients(accumulate)
        net, size = self.net, len(y)
        start, outputs, points = net.trace(x, detach=True)
        logits = net.readout(points[-1])
        losses = self.losses(logits, y)
        error = error_of(self.loss, logits, y) / size  # the mean over the batch
        signals = []
        for number, output in enumerate(outputs):
            signal = net.spread(self._mean_over_batch(error, self.feedback[number]), output)
            if self.penalty:
                signal = signal + (2 * self.penalty / size) * output.detach()
            signals.append(signal)
        at_embed = net.spread(self._mean_over_batch(error, self._matrix_of_embed()), start)
        roots = [(losses, torch.ones_like(losses)), *zip(outputs, signals, strict=True), (start, at_embed)]
        learning = [(root, signal) for root, signal in roots if root.requires_grad]
        if learning:
            torch.autograd.backward([root for root, _ in learning], [signal for _, signal in learning])
        return Credit(losses.detach(), logits.detach(), tuple(signals))

    def matrices(self) -> list[Tensor]:
        """Returns B_0 to B_{L-1}."""
        return list(self.feedback)

    def feedback_of_embed(self) -> str:
        """Says whether the embed shares the matrix of block 0."""
        return "shared with block 0" if self.embed_feedback is None else "its own matrix"

    def _matrix_of_embed(self) -> Tensor:
        return self.feedback[0] if self.embed_feedback is None else self.embed_feedback

    def _mean_over_batch(self, error: Tensor, matrix: Tensor) -> Tensor:
        """Returns the credit (batch, width) of errors that have been divided by the size of the batch."""
        # Normalised credit has no memory of the error's scale, so the mean over the batch is taken afterwards.
        size = len(error)
        return self._normalised(error * size @ matrix.T) / size if self.normalise else error @ matrix.T

    def _normalised(self, signal: Tensor) -> Tensor:
        return unit_rms(signal) if self.normalise else signal

    def plan(self) -> list[PlanLine]:
        """Only the read-out is exact; the graph is cut at every block's input."""
        scaled = ", divided per sample by its RMS" if self.normalise else ""
        pulled = f", plus {self.penalty:g} ||f||^2" if self.penalty else ""
        whose = "(the matrix of block 0)" if self.embed_feedback is None else "(its own matrix)"
        matrix = "B_0" if self.embed_feedback is None else "B"
        at_embed = LocalSignal(self._matrix_of_embed(), self.normalise)
        lines = [PlanLine("embed", f"{matrix} e{scaled} {whose}; cut from the blocks", "other", at_embed)]
        for number, block in enumerate(self.block_names()):
            signal = f"B_{number} e at its output f{scaled}{pulled}; exact inside, cut at its input"
            local = LocalSignal(self.feedback[number], self.normalise, self.penalty)
            lines.append(PlanLine(block, signal, "other", local))
        return [*lines, PlanLine("readout", EXACT, "exact")]


def build(net: nn.Module, setup: Setup, *, normalise: bool = True, penalty: float = 0.0) -> DirectFeedback:
    """Returns the rule with matrices drawn for the network."""
    blocks, embed = feedback_for(net, setup)
    return DirectFeedback(
        net, blocks, normalise=normalise, penalty=penalty, embed_feedback=embed, loss=setup.loss, law=LAW
    )
