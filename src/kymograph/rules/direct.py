"""Direct feedback alignment (Nokland, 2016, arXiv:1609.01596), handed to whole blocks.

The output error, e = dL/dz (for cross-entropy: softmax(z) - onehot(y)), goes to every block through a fixed random
matrix of its own: a_l = B_l e. Block l descends <f_l, a_l>. Inside a block the gradient is exact; between blocks
nothing flows. The read-out gets its exact gradient; the embed learns through its own matrix, or through block 0's if
they share it. Where the outputs have positions, as in a language model, every position passes on its own error.

All parts use the weights from before the step, so one forward pass serves them all: the graph is cut between blocks
while it is built, and a single backward call starts from every block's output at once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Literal

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.models.blocks import BlockNetwork
from kymograph.rules.base import EXACT, BlockRule, Credit, LocalSignal, PlanLine, Setup, TrueFeedback
from kymograph.rules.chain import chain_of_one_sample
from kymograph.rules.feedback import LAW, Matrices, feedback_for
from kymograph.rules.losses import Loss, error_of, rows_of
from kymograph.rules.normalised import unit_rms
from kymograph.shapes import Float

PART = {
    "name": "dfa",
    "order": 2,
    "about": "direct feedback alignment: the output error reaches every block through a random matrix",
    "options": ("normalise", "penalty", "shared_embed"),
    "acts_on": "blocks",
}


class DirectFeedback(BlockRule):
    """DFA, optionally with normalised credit, a penalty, and a separate matrix for the embed.

    Args:
        feedback: the matrices B_l, (width, classes) each.
        normalise: whether each sample's credit is divided by its RMS, which removes the size of its error.
        penalty: lambda; lambda times the mean of ||f_l||^2 is added to the block's loss (0: vanilla DFA).
        embed_feedback: the embed's own matrix; None: it shares the one of block 0.
        law: the distribution that the matrices were drawn from, if known.
    """

    title = "dfa"
    sent: Literal["error", "sign", "target"] = "error"
    """What the matrices carry."""
    symbol = "e"
    """Its symbol in the plan."""
    feedback: Matrices
    embed_feedback: Tensor | None

    def __init__(
        self,
        net: nn.Module,
        feedback: Iterable[Tensor],
        *,
        normalise: bool = False,
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
        return self.message_of(error) @ self.feedback[block].T

    def message_of(self, error: Tensor) -> Tensor:
        """Returns what the matrices carry for the given output errors."""
        return error

    def message(self, outputs: Tensor, y: Any) -> Tensor:
        """Returns what the matrices carry for a batch, one row per sample (and position)."""
        return self.message_of(error_of(self.loss, outputs, y))

    def backward(self, x: Tensor, y: Tensor, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of all parts, from one forward pass."""
        self.check_followed()
        net, size = self.net, len(y)
        start, outputs, points = net.trace(x, detach=True)
        logits = net.readout(points[-1])
        losses = self.losses(logits, y)
        error = self.message(logits, y) / rows_of(logits)  # the mean over the batch
        signals = []
        for number, output in enumerate(outputs):
            signal = spread(net, self._mean_over_batch(error, self.feedback[number]), output)
            if self.penalty:
                signal = signal + (2 * self.penalty / size) * output.detach()
            signals.append(signal)
        at_embed = spread(net, self._mean_over_batch(error, self.matrix_of_embed()), start)
        roots = [(losses, torch.ones_like(losses)), *zip(outputs, signals, strict=True), (start, at_embed)]
        learning = [(root, signal) for root, signal in roots if root.requires_grad]
        with self.filling(accumulate):
            if learning:
                torch.autograd.backward([root for root, _ in learning], [signal for _, signal in learning])
        self.learn_from(error, points)
        return Credit(losses.detach(), logits.detach(), tuple(signals))

    def learn_from(self, error: Tensor, points: list[Tensor]) -> None:
        """Called with what matrices may be learned from: the errors divided by the batch size, and h_0 to h_L."""

    def matrices(self) -> list[Tensor]:
        """Returns B_0 to B_{L-1}."""
        return list(self.feedback)

    def feedback_of_embed(self) -> str:
        """Describes whether the embed shares the matrix of block 0."""
        return "shared with block 0" if self.embed_feedback is None else "its own matrix"

    def matrix_of_embed(self) -> Tensor:
        """Returns the matrix through which the embed learns: its own, or that of block 0."""
        return self.feedback[0] if self.embed_feedback is None else self.embed_feedback

    def _mean_over_batch(self, error: Tensor, matrix: Tensor) -> Tensor:
        """Returns the credit (batch, width) of errors that are already divided by the batch size."""
        # Normalising removes the error's scale, so the mean over the batch is taken afterwards.
        size = rows_of(error)
        return self._normalised(error * size @ matrix.T) / size if self.normalise else error @ matrix.T

    def _normalised(self, signal: Tensor) -> Tensor:
        return unit_rms(signal) if self.normalise else signal

    def plan(self) -> list[PlanLine]:
        """Returns the plan: only the read-out is exact, and the graph is cut at every block's input."""
        scaled = ", divided per sample by its RMS" if self.normalise else ""
        pulled = f", plus {self.penalty:g} ||f||^2" if self.penalty else ""
        whose = "(the matrix of block 0)" if self.embed_feedback is None else "(its own matrix)"
        matrix = "B_0" if self.embed_feedback is None else "B"
        at_embed = LocalSignal(self.matrix_of_embed(), self.normalise, sent=self.sent)
        sent = self.symbol
        lines = [PlanLine("embed", f"{matrix} {sent}{scaled} {whose}; cut from the blocks", "other", at_embed)]
        for number, block in enumerate(self.block_names()):
            signal = f"B_{number} {sent} at its output f{scaled}{pulled}; exact inside, cut at its input"
            local = LocalSignal(self.feedback[number], self.normalise, self.penalty, self.sent)
            lines.append(PlanLine(block, signal, "other", local))
        return [*lines, PlanLine("readout", EXACT, "exact")]

    def true_feedback(self, x: Any, y: Any) -> TrueFeedback | None:
        """Returns the rule on one sample, with every B set to the chain from its block to the outputs.

        None where credit is spread over positions, because no matrix is the chain there, and if the rule normalises or
        penalises.
        """
        chain = None if self.normalise or self.penalty else chain_of_one_sample(self.net, x)
        if chain is None:
            return None
        twin = copy.deepcopy(self)
        twin.embed_feedback, *blocks = chain
        twin.feedback = Matrices(blocks)
        return TrueFeedback(twin, x[:1], y[:1], "the chain from each block to the outputs as feedback, on one sample")


def spread(net: BlockNetwork, credit: Tensor, h: Tensor) -> Tensor:
    """Returns credit spread over the positions of ``h``; credit that already has positions is only reshaped."""
    return credit.view_as(h) if credit.dim() == h.dim() > 2 else net.spread(credit, h)


def build(
    net: nn.Module, setup: Setup, *, normalise: bool = False, penalty: float = 0.0, shared_embed: bool = False
) -> DirectFeedback:
    """Returns the rule with matrices drawn for the network."""
    blocks, embed = feedback_for(net, setup, shared_embed=shared_embed)
    return DirectFeedback(
        net, blocks, normalise=normalise, penalty=penalty, embed_feedback=embed, loss=setup.loss, law=LAW
    )
