"""Direct feedback alignment and its relatives, handed to whole blocks.

DFA (Nokland, 2016, arXiv:1609.01596) sends the output error, e = dL/dz (for cross-entropy: softmax(z) - onehot(y)), to
every block through a fixed random matrix of its own: a_l = B_l e. Block l descends <f_l, a_l>. Inside a block the
gradient is exact; between blocks nothing flows. The read-out gets its exact gradient; the embed learns through its own
matrix, or through block 0's if they share it. Where the outputs have positions, as in a language model, every position
passes on its own error.

All parts use the weights from before the step, so one forward pass serves them all: the graph is cut between blocks
while it is built, and a single backward call starts from every block's output at once.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from kymograph import KymographError
from kymograph._shapes import Float
from kymograph_studies.rules.backprop import unit_rms
from kymograph_studies.rules.base import EXACT, BlockRule, Credit, LocalSignal, PlanLine, Setup, TrueFeedback
from kymograph_studies.rules.feedback import LAW, Matrices, chain_of_one_sample, feedback_for
from kymograph_studies.rules.losses import Loss, error_of, rows_of, target_of

PARTS = {
    "dfa": {
        "attribute": "DirectFeedback.drawn",
        "order": 2,
        "about": "direct feedback alignment: the output error reaches every block through a random matrix",
        "options": ("normalise", "penalty", "shared_embed"),
        "acts_on": "blocks",
    },
    "sdfa": {
        "attribute": "SignDirect.drawn",
        "order": 12,
        "about": "direct feedback alignment of the output error's sign",
        "options": ("normalise",),
        "acts_on": "blocks",
    },
    "drtp": {
        "attribute": "TargetProjection.drawn",
        "order": 13,
        "about": "direct random target projection: every block gets the target through a random matrix",
        "options": ("normalise",),
        "acts_on": "blocks",
    },
    "penalised-dfa": {
        "attribute": "build_penalised",
        "order": 15,
        "about": "direct feedback alignment, normalised, with a penalty on the size of each block's output",
        "options": ("normalise", "penalty", "shared_embed"),
        "acts_on": "blocks",
    },
    "dkp": {
        "attribute": "DirectKolenPollack.drawn",
        "order": 14,
        "about": "direct Kolen-Pollack: direct feedback alignment whose matrices are learned",
        "options": ("normalise",),
        "acts_on": "blocks",
        "learns": True,
    },
}


Direct = TypeVar("Direct", bound="DirectFeedback")


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

    @classmethod
    def drawn(cls: type[Direct], net: nn.Module, setup: Setup, *, shared_embed: bool = False, **options: Any) -> Direct:
        """Returns the rule with matrices drawn for the network."""
        blocks, embed = feedback_for(net, setup, shared_embed=shared_embed)
        return cls(net, blocks, embed_feedback=embed, loss=setup.loss, law=LAW, **options)

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
        net = self.net
        start, outputs, points = net.trace(x, detach=True)
        logits = net.readout(points[-1])
        losses = self.losses(logits, y)
        error = self.message(logits, y) / rows_of(logits)  # the mean over the batch
        signals = []
        for number, output in enumerate(outputs):
            signal = net.spread(self._mean_over_batch(error, self.feedback[number]), output)
            if self.penalty:
                signal = signal + (2 * self.penalty / len(y)) * output.detach()
            signals.append(signal)
        at_embed = net.spread(self._mean_over_batch(error, self.matrix_of_embed()), start)
        roots = [(losses, torch.ones_like(losses)), *zip(outputs, signals, strict=True), (start, at_embed)]
        self.descend(roots, accumulate)
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


def build_penalised(
    net: nn.Module, setup: Setup, *, normalise: bool = True, penalty: float = 0.01, shared_embed: bool = False
) -> DirectFeedback:
    """Returns DFA, by default normalised and penalised."""
    return DirectFeedback.drawn(net, setup, normalise=normalise, penalty=penalty, shared_embed=shared_embed)


class SignDirect(DirectFeedback):
    """sDFA: a_l = B_l sign(e)."""

    title, symbol = "sdfa", "sign(e)"
    sent = "sign"

    def message_of(self, error: Tensor) -> Tensor:
        """Returns the signs of the errors."""
        return error.sign()

    def true_feedback(self, x: Tensor, y: Tensor) -> TrueFeedback | None:
        """Returns None: the sign of the error is not the error, whatever carries it."""
        return None


class TargetProjection(DirectFeedback):
    """Direct random target projection, DRTP (Frenkel, Lefebvre and Bol, 2021, arXiv:1909.01311): a_l = B_l onehot(y).

    Every block gets its target through its matrix, before the outputs are known. Under cross-entropy, onehot(y) marks
    where the error is negative, and the signal keeps only that.
    """

    title, symbol = "drtp", "onehot(y)"
    sent = "target"

    def message(self, outputs: Tensor, y: Any) -> Tensor:
        """Returns the targets as one-hot vectors; targets of the outputs' shape as they are."""
        return target_of(outputs.detach(), y)

    def message_of(self, error: Tensor) -> Tensor:
        """Returns the targets from cross-entropy errors, which are negative only at the target."""
        return (error < 0).to(error.dtype)

    def true_feedback(self, x: Tensor, y: Tensor) -> TrueFeedback | None:
        """Returns None: the target is not the error, whatever carries it."""
        return None


class DirectKolenPollack(DirectFeedback):
    """Direct Kolen-Pollack, DKP (Webster, Choi and Ahn, 2021): each matrix learns as a read-out of its block would.

    A linear read-out from h_l to the outputs has the gradient e h_l^T; B_l, its transpose, takes that read-out's step,

        B_l <- (1 - eta decay) B_l - eta h_l e^T   (the mean over the batch),

    with the learning rate and the weight decay of the optimizer that the rule is attached to: needs `attach`.
    """

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
        if not accumulate or all(parameter.grad is None for parameter in self.net.parameters()):
            for total in self.pending:
                total.zero_()
        return super().backward(x, y, accumulate=accumulate)

    def learn_from(self, error: Tensor, points: list[Tensor]) -> None:
        """Correlates every point of the stream with the output errors, over the positions that receive credit."""
        for total, point in zip(self.pending, points, strict=True):
            with torch.enable_grad():
                matrix = torch.zeros_like(total, requires_grad=True)
                # Spreading is linear in the matrix, so this gradient is h e^T, gathered from where credit would go.
                reach = (self.net.spread(error @ matrix.T, point.detach()) * point.detach()).sum()
                (gradient,) = torch.autograd.grad(reach, matrix)
            total += gradient

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Takes one step with every matrix."""
        self.following.note_update()
        trained = next(parameter for parameter in self.net.parameters() if parameter.requires_grad)
        rates = self.following.rates(trained, self.title)
        if rates is None:
            raise KymographError("dkp follows an optimizer that does not train its network; attach the one that does")
        for matrix, gradient in zip((self.matrix_of_embed(), *self.feedback), self.pending, strict=True):
            matrix.mul_(1 - rates.lr * rates.decay).sub_(gradient, alpha=rates.lr)
            gradient.zero_()
