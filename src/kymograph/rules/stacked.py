"""DFA of the residual MLP, all blocks at once.

Two facts that autograd cannot know make a DFA step cheaper than backpropagation's. Nothing flows between blocks, so the
way back is the same few batched products for all of them. And the credit e B^T has no more rank than there are classes:
kept as its two factors, it turns the weight gradients of the embed and of every block's last layer (rank 10 instead of
256 on CIFAR-10) into products that cost next to nothing. The numbers are `DirectFeedback`'s, to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from kymograph.models.blocks import FlatNetwork
from kymograph.models.resmlp import ResidualMLP
from kymograph.rules.credit import Credit
from kymograph.rules.direct import DirectFeedback, output_error


class StackedFeedback(DirectFeedback):
    """`DirectFeedback` on a `ResidualMLP`, from one stack of all its blocks; arguments as there."""

    _stack: _Stack | None = None

    def backward(self, flat: Any, x: Tensor, y: Tensor) -> Credit:
        """Fills the gradients of all parts from one forward pass."""
        if self._stack is None or self._stack.flat is not flat:
            self._stack = _Stack(flat, torch.stack(self.feedback))
        stack, net, size = self._stack, flat.net, len(y)
        x = x.flatten(1)
        last = stack.forward(net, x)
        flat.gradients[0, flat.spans["readout"]] = 0.0
        logits = net.readout(last)
        loss = nn.functional.cross_entropy(logits, y)
        loss.backward()
        with torch.no_grad():
            error = output_error(logits, y)
            coefficients = (error / size).expand(len(stack.feedback), -1, -1)  # the mean over the batch
            if self.normalise:
                credit = error @ stack.feedback.mT  # (L, B, width)
                coefficients = coefficients / (credit.square_().mean(-1, keepdim=True).sqrt_() + 1e-6)  # as `unit_rms`
            stack.embed_back(net.embed_layer, x, coefficients)
            stack.blocks_back(coefficients, 2 * self.penalty / size)
        return Credit(loss.detach()[None])


class _Stack:
    """The parameters, gradients and last forward pass of all blocks, each as one tensor with a leading axis of L."""

    def __init__(self, flat: FlatNetwork, feedback: Tensor) -> None:
        self.flat, self.feedback = flat, feedback  # (L, width, classes)
        self.w1, self.w1_grad = flat.stacked("w1.weight")  # (L, inside, width)
        self.w2, self.w2_grad = flat.stacked("w2.weight")  # (L, width, inside)
        self.scale, self.scale_grad = flat.stacked("norm.weight")  # (L, width)
        self.shift, self.shift_grad = flat.stacked("norm.bias")
        self.b1_grad, self.b2_grad = flat.stacked("w1.bias")[1], flat.stacked("w2.bias")[1]
        self.unit = self.inner = self.active = self.output = feedback.new_empty(0, 0, 0)

    @torch.no_grad()
    def forward(self, net: ResidualMLP, x: Tensor) -> Tensor:
        """Returns h_L, (B, width), and keeps what the way back needs: a row per block and sample of

        ``unit``, the block's LayerNorm before its weights; ``inner`` and ``active``, before and after its GELU; and
        ``output``, what it says.
        """
        if self.unit.shape[1] != len(x):
            depth, inside, width = self.w1.shape
            self.unit, self.output = x.new_empty(2, depth, len(x), width)
            self.inner, self.active = x.new_empty(2, depth, len(x), inside)
        h = net.embed_layer(x)
        for block, unit, inner, active, output in zip(
            net.mlp_blocks, self.unit, self.inner, self.active, self.output, strict=True
        ):
            unit.copy_(nn.functional.layer_norm(h, block.norm.normalized_shape, eps=block.norm.eps))
            normed = torch.addcmul(block.norm.bias, unit, block.norm.weight)
            torch.addmm(block.w1.bias, normed, block.w1.weight.t(), out=inner)
            active.copy_(nn.functional.gelu(inner))
            torch.addmm(block.w2.bias, active, block.w2.weight.t(), out=output)
            h = net.join(h, output)
        return h

    def embed_back(self, embed: nn.Linear, x: Tensor, coefficients: Tensor) -> None:
        """Fills the gradients of the embed, which learns from the credit of block 0."""
        assert embed.weight.grad is not None and embed.bias.grad is not None
        torch.mm(self.feedback[0], coefficients[0].t() @ x, out=embed.weight.grad)
        torch.mv(self.feedback[0], coefficients[0].sum(0), out=embed.bias.grad)

    def blocks_back(self, coefficients: Tensor, pull: float) -> None:
        """Fills the gradients of all blocks.

        The signal at a block's output is c B^T, plus ``pull`` times that output if its size is penalised; only then is
        it of full rank and multiplied out. LayerNorm's own gradients need no further product: with M the product of
        the signal before the GELU and ``unit``, the gradient of W1 is M times LayerNorm's weights (and shifted by its
        bias), and theirs is W1 * M summed over the outputs of W1.
        """
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
