"""Backpropagation and DFA of the residual MLP with every derivative written out, equal to autograd up to rounding.

Autograd computes each weight gradient in new memory, adds it to a zeroed one and discards it, which on a CPU costs a
tenth of the step. Here each is written directly to ``.grad``.

Two properties that autograd cannot know make a DFA step cheaper than a backpropagation step. Nothing flows between
blocks, so the backward pass is the same few batched products for all of them. And the rank of the credit e B^T is at
most the number of classes: kept as its two factors, it turns the weight gradients of the embed and of every block's
last layer (rank 10 instead of 256 on CIFAR-10) into products that cost next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from kymograph_studies.models.feedforward import MlpBlock, ResidualMLP
from kymograph_studies.models.flat import stack_of_views
from kymograph_studies.rules.backprop import Backprop
from kymograph_studies.rules.base import RMS_EPSILON, Credit, Rule
from kymograph_studies.rules.baselines import Frozen, Shallow
from kymograph_studies.rules.direct import DirectFeedback
from kymograph_studies.rules.fast.inplace import InPlace, Normed, gradient_of, linear_back, normalise, through_norm
from kymograph_studies.rules.feedback import Matrices
from kymograph_studies.rules.losses import cross_entropy, output_error

PARTS = {
    "resmlp-backprop": {
        "attribute": "accelerate_resmlp_backprop",
        "rules": ("bp", "shallow", "frozen"),
        "about": "ResidualMLP: derivatives written out, in place",
    },
    "resmlp-direct": {
        "attribute": "accelerate_resmlp_direct",
        "rules": ("dfa", "penalised-dfa"),
        "about": "ResidualMLP: all blocks in a few batched products, credit kept as its factors",
    },
}

DEVICES = ("cpu", "cuda")
"""Devices on which writing into strided views is reliable."""


class _InPlaceBackprop(InPlace):
    """Backpropagation through a `ResidualMLP`, for all parts or for some."""

    net: ResidualMLP
    trains_embed: bool
    trains_blocks: bool

    @torch.no_grad()
    def fill(self, x: Tensor, y: Tensor) -> Credit:
        """Fills the gradients of the trained parts; the others are exactly zero."""
        net, blocks = self.net, self.net.mlp_blocks
        if not self.trains_blocks:
            for parameter in self._net_parameters:
                gradient_of(parameter).zero_()
        x = x.flatten(1)
        h = net.embed_layer(x)
        kept: list[tuple[Tensor, Normed, Tensor, Tensor]] = []
        for block in blocks:
            normed = normalise(block.norm, h)
            inner = block.w1(normed[0])
            active = nn.functional.gelu(inner)
            kept.append((h, normed, inner, active))
            h = net.join(h, block.w2(active))
        loss, logits, signal = _readout(net, h, y)
        if self.trains_embed:
            for block, (point, normed, inner, active) in zip(reversed(blocks), reversed(kept), strict=True):
                at_input = _block(block, point, normed, inner, active, signal, self.trains_blocks)
                signal = at_input.add_(signal) if net.skip else at_input
            linear_back(net.embed_layer, x, signal)
        return Credit(loss[None], logits)


class FastBackprop(_InPlaceBackprop, Backprop):
    """`Backprop` on a `ResidualMLP`."""

    net: ResidualMLP
    trains_embed = trains_blocks = True


class FastFrozen(_InPlaceBackprop, Frozen):
    """`Frozen` on a `ResidualMLP`."""

    net: ResidualMLP
    trains_embed, trains_blocks = True, False


class FastShallow(_InPlaceBackprop, Shallow):
    """`Shallow` on a `ResidualMLP`."""

    net: ResidualMLP
    trains_embed = trains_blocks = False


_FAST_RULES: dict[type[Rule], type[_InPlaceBackprop]] = {
    Backprop: FastBackprop,
    Frozen: FastFrozen,
    Shallow: FastShallow,
}


def accelerate_resmlp_backprop(rule: Rule) -> Rule | None:
    """Returns the twin of a plain rule on a `ResidualMLP`."""
    twin = _FAST_RULES.get(type(rule))
    return twin(rule.net, loss=rule.loss) if twin is not None and serves(rule) else None


def serves(rule: Rule) -> bool:
    """Returns whether a rule's network, loss and device are supported here."""
    net = rule.net
    return (
        type(net) is ResidualMLP
        and all(type(block) is MlpBlock for block in net.blocks)
        and rule.loss is cross_entropy
        and net.head.weight.device.type in DEVICES
    )


def _readout(net: ResidualMLP, h: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Fills the gradients of head and terminal LayerNorm; returns the mean loss, the logits and the gradient at h_L."""
    normed = normalise(net.norm, h) if isinstance(net.norm, nn.LayerNorm) else None
    read = h if normed is None else normed[0]
    logits = net.head(read)
    loss = nn.functional.cross_entropy(logits, y)
    error = output_error(logits, y).div_(len(y))
    linear_back(net.head, read, error)
    signal = error @ net.head.weight
    if normed is not None and isinstance(net.norm, nn.LayerNorm):
        signal = through_norm(net.norm, h, normed, signal, fill=True)
    return loss, logits, signal


def _block(
    block: MlpBlock, h: Tensor, normed: Normed, inner: Tensor, active: Tensor, signal: Tensor, fill: bool
) -> Tensor:
    """Returns the gradient at a block's input, without the skip's, from that at its output; fills its own if asked."""
    before = torch.ops.aten.gelu_backward(signal @ block.w2.weight, inner)
    if fill:
        linear_back(block.w2, active, signal)
        linear_back(block.w1, normed[0], before)
    return through_norm(block.norm, h, normed, before @ block.w1.weight, fill)


class StackedDirectFeedback(InPlace, DirectFeedback):
    """`DirectFeedback` on a `ResidualMLP` whose blocks are evenly spaced in memory, as in a `FlatNetwork`."""

    net: ResidualMLP

    def locate(self) -> bool:
        """Takes each weight of all blocks as one stacked view; returns whether their memory layout allows it."""
        matrices = stack_of_views(list(self.feedback))
        if matrices is None:
            matrices = torch.stack(list(self.feedback))  # (L, width, classes)
            self.feedback = Matrices(matrices.unbind())
        self._matrices, self._stack = matrices, _Stack.of(self.net, matrices)
        return self._stack is not None

    def rule_tensors(self) -> Iterable[Tensor | None]:
        """Returns the feedback matrices."""
        return self.feedback._buffers.values()

    @torch.no_grad()
    def fill(self, x: Tensor, y: Tensor) -> Credit:
        """Fills the gradients of all parts from one forward pass."""
        stack, matrices, size = self._stack, self._matrices, len(y)
        assert stack is not None
        x = x.flatten(1)
        last = stack.forward(x)
        loss, logits = stack.readout_back(last, y)
        error = output_error(logits, y)
        share = error / size  # the mean over the batch
        coefficients = share.expand(len(matrices), -1, -1)
        if self.normalise:
            coefficients = coefficients / _rms(error, matrices)
        at_embed = coefficients[0]
        if self.embed_feedback is not None:
            at_embed = share / _rms(error, self.embed_feedback) if self.normalise else share
        stack.embed_back(x, at_embed, self.matrix_of_embed())
        signal = stack.blocks_back(coefficients, 2 * self.penalty / size)
        if signal is not None:
            return Credit(loss[None], logits, signal.unbind())
        return Credit(loss[None], logits, lambda: (coefficients @ matrices.mT).unbind())


def _rms(error: Tensor, matrices: Tensor) -> Tensor:
    """Returns the RMS of each sample's credit plus `RMS_EPSILON`, (..., B, 1): the divisor in `unit_rms`."""
    credit = error @ matrices.mT  # (..., B, width)
    return credit.square_().mean(-1, keepdim=True).sqrt_() + RMS_EPSILON


def accelerate_resmlp_direct(rule: Rule) -> Rule | None:
    """Returns the twin of plain DFA on a `ResidualMLP`, if its blocks are one stack."""
    if type(rule) is not DirectFeedback or not serves(rule):
        return None
    if len({matrix.shape for matrix in rule.feedback}) > 1 or stack_of_views(_weights(rule.net, "w1.weight")) is None:
        return None
    return StackedDirectFeedback(
        rule.net,
        rule.feedback,
        normalise=rule.normalise,
        penalty=rule.penalty,
        embed_feedback=rule.embed_feedback,
        loss=rule.loss,
        law=rule.feedback_law,
    )


def _weights(net: nn.Module, name: str) -> list[Tensor]:
    return [block.get_parameter(name) for block in net.get_submodule("blocks").children()]


class _Stack:
    """The parameters, gradients and last forward pass of all blocks, each as one tensor with a leading axis of L."""

    def __init__(
        self, net: ResidualMLP, feedback: Tensor, values: dict[str, Tensor], gradients: dict[str, Tensor]
    ) -> None:
        self.net, self.feedback = net, feedback  # feedback: (L, width, classes)
        self.w1, self.w1_grad = values["w1.weight"], gradients["w1.weight"]  # (L, inside, width)
        self.w2, self.w2_grad = values["w2.weight"], gradients["w2.weight"]  # (L, width, inside)
        self.scale, self.scale_grad = values["norm.weight"], gradients["norm.weight"]  # (L, width)
        self.shift, self.shift_grad = values["norm.bias"], gradients["norm.bias"]
        self.b1_grad, self.b2_grad = gradients["w1.bias"], gradients["w2.bias"]
        self._room_for(0)

    @staticmethod
    def of(net: ResidualMLP, feedback: Tensor) -> _Stack | None:
        """Returns the blocks of ``net`` as one stack; None if they are not evenly spaced in memory."""
        values, gradients = {}, {}
        for name, _ in net.blocks[0].named_parameters():
            weights = _weights(net, name)
            stacked, filled = stack_of_views(weights), stack_of_views([gradient_of(weight) for weight in weights])
            if stacked is None or filled is None:
                return None
            values[name], gradients[name] = stacked, filled
        return _Stack(net, feedback, values, gradients)

    def _room_for(self, size: int) -> None:
        """Allocates what the backward pass needs from a forward pass, a row per block and sample."""
        depth, inside, width = self.w1.shape
        self.unit, self.output = self.w1.new_empty(2, depth, size, width)  # LayerNorm less its weights; the block's f
        self.inner, self.active = self.w1.new_empty(2, depth, size, inside)  # before and after the GELU

    def forward(self, x: Tensor) -> Tensor:
        """Returns h_L, (B, width), from images (B, inputs)."""
        if self.unit.shape[1] != len(x):
            self._room_for(len(x))
        h: Tensor = self.net.embed_layer(x)
        for block, unit, inner, active, output in zip(
            self.net.mlp_blocks, self.unit, self.inner, self.active, self.output, strict=True
        ):
            unit.copy_(nn.functional.layer_norm(h, block.norm.normalized_shape, eps=block.norm.eps))
            normed = torch.addcmul(block.norm.bias, unit, block.norm.weight)
            torch.addmm(block.w1.bias, normed, block.w1.weight.t(), out=inner)
            torch.ops.aten.gelu.out(inner, out=active)
            torch.addmm(block.w2.bias, active, block.w2.weight.t(), out=output)
            h = self.net.join(h, output)
        return h

    def readout_back(self, h: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Fills the gradients of terminal LayerNorm and head; returns the mean loss and the logits, (B, classes).

        Uses autograd's own operations without its bookkeeping, which takes longer than the operations.
        """
        net, aten = self.net, torch.ops.aten
        normed = normalise(net.norm, h) if isinstance(net.norm, nn.LayerNorm) else None
        read = h if normed is None else normed[0]
        logits = net.head(read)
        chances = logits.log_softmax(-1)
        loss, weight = aten.nll_loss_forward(chances, y, None, 1, -100)  # 1: the mean
        signal = aten.nll_loss_backward(loss.new_ones(()), chances, y, None, 1, -100, weight)
        signal = aten._log_softmax_backward_data(signal, chances, -1, logits.dtype)
        linear_back(net.head, read, signal)
        if normed is not None and isinstance(net.norm, nn.LayerNorm):
            through_norm(net.norm, h, normed, signal @ net.head.weight, fill=True)
        return loss, logits

    def embed_back(self, x: Tensor, coefficients: Tensor, matrix: Tensor) -> None:
        """Fills the gradients of the embed, which learns from the coefficients (B, classes) through ``matrix``."""
        embed = self.net.embed_layer
        factor = coefficients.t() @ x  # (classes, inputs)
        rows = math.gcd(len(matrix), 32)  # in pieces, which parallelise better than one flat product
        pieces = matrix.view(-1, rows, len(factor))
        gradient = gradient_of(embed.weight).view(-1, rows, factor.shape[1])
        torch.bmm(pieces, factor.expand(len(pieces), -1, -1), out=gradient)
        torch.mv(matrix, coefficients.sum(0), out=gradient_of(embed.bias))

    def blocks_back(self, coefficients: Tensor, pull: float) -> Tensor | None:
        """Fills the gradients of all blocks; returns the signals at their outputs, (L, B, width), if computed.

        The signal at a block's output is c B^T, plus ``pull`` times that output if its size is penalised. Only then is
        it of full rank, and computed. LayerNorm's own gradients need no further product: with M the product of the
        signal before the GELU and ``unit``, the gradient of W1 is M times LayerNorm's weights (and shifted by its
        bias), and theirs is W1 * M summed over the outputs of W1.
        """
        signal = None
        if pull:
            signal = torch.baddbmm(self.output, coefficients, self.feedback.mT, beta=pull)  # (L, B, width)
            torch.bmm(signal.mT, self.active, out=self.w2_grad)
            self.b2_grad.copy_(signal.sum(1))
            at_active = signal @ self.w2
        else:
            torch.bmm(self.feedback, coefficients.mT @ self.active, out=self.w2_grad)
            self.b2_grad.copy_((self.feedback @ coefficients.sum(1)[..., None])[..., 0])
            at_active = coefficients @ (self.feedback.mT @ self.w2)
        before = torch.ops.aten.gelu_backward(at_active, self.inner)
        sums = before.sum(1)  # (L, inside)
        torch.bmm(before.mT, self.unit, out=self.w1_grad)  # M
        self.scale_grad.copy_((self.w1 * self.w1_grad).sum(1))
        self.shift_grad.copy_((sums[:, None] @ self.w1)[:, 0])
        self.w1_grad.mul_(self.scale[:, None]).addcmul_(sums[..., None], self.shift[:, None])
        self.b1_grad.copy_(sums)
        return signal
