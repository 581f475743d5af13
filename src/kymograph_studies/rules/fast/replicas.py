"""Backpropagation of networks of many replicas in closed form."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from kymograph._shapes import Float
from kymograph_studies.models.replicas import NORM_EPS, Layer, LayerStack, NextToken, TokenBatch, TokenTargets
from kymograph_studies.rules.backprop import Backprop
from kymograph_studies.rules.base import Credit, Rule
from kymograph_studies.rules.fast.inplace import InPlace, gradient_of
from kymograph_studies.rules.losses import replica_cross_entropy, replica_squared_error

PARTS = {
    "layer-stack-backprop": {
        "attribute": "accelerate_layer_stack_backprop",
        "rules": ("bp",),
        "about": "LayerStack: the gradient in closed form, in memory that is reused",
    },
    "next-token-backprop": {
        "attribute": "accelerate_next_token_backprop",
        "rules": ("bp",),
        "about": "NextToken: the gradient in closed form",
    },
}


class LayerStackBackprop(InPlace, Backprop):
    """`Backprop` on a `LayerStack`, under the mean squared error; bit-identical to autograd.

    There is no graph and no fresh memory: every intermediate has its own memory, reused from step to step, and weight
    gradients are written directly to ``.grad``.
    """

    net: LayerStack
    _memory: _StackMemory | None = None

    def locate(self) -> bool:
        """Builds twins of the layers that do not use autograd."""
        self._layers = [_LayerArithmetic(cast(Layer, block)) for block in self.net.blocks]
        self._memory = None
        return True

    @torch.no_grad()
    def fill(self, x: Float[Tensor, "replicas batch width"], y: Float[Tensor, "replicas batch width"]) -> Credit:
        """Fills the gradient of each replica's mean squared error."""
        memory = self._memory
        if memory is None or memory.above.shape != x.shape:
            memory = self._memory = _StackMemory(x.shape, len(self._layers), self.net.flat.values)
        memory.layers[-1].out = torch.empty_like(memory.above)  # returned to the caller, so never overwritten
        stream = [x]
        for layer, room in zip(self._layers, memory.layers, strict=True):
            stream.append(layer.forward(stream[-1], room))
        error = torch.sub(stream[-1], y, out=memory.above)
        loss = error.square().mean(dim=(1, 2))
        error.mul_(2.0 / (error.shape[1] * error.shape[2]))  # dLoss/dh at the top
        for number in reversed(range(len(self._layers))):
            self._layers[number].backward(stream[number], memory.layers[number], memory, number > 0)
        return Credit(loss, stream[-1])


def accelerate_layer_stack_backprop(rule: Rule) -> Rule | None:
    """Returns the closed form of backpropagation on a `LayerStack`."""
    serves = type(rule) is Backprop and type(rule.net) is LayerStack and rule.loss is replica_squared_error
    return LayerStackBackprop(rule.net, loss=rule.loss) if serves else None


class _LayerMemory:
    """The memory of one layer's forward pass, each (R, B, width)."""

    def __init__(self, shape: torch.Size, like: Tensor) -> None:
        self.pre, self.out = like.new_empty(shape), like.new_empty(shape)
        self.normed = self.mean = self.rstd = like.new_empty(0)


class _StackMemory:
    """The memory of one pass through a stack, for one batch shape."""

    def __init__(self, shape: torch.Size, layers: int, like: Tensor) -> None:
        self.layers = [_LayerMemory(shape, like) for _ in range(layers)]
        self.above, self.below, self.d_pre = (like.new_empty(shape) for _ in range(3))


class _LayerArithmetic:
    """One layer's forward and backward pass on plain tensors, in preallocated memory."""

    def __init__(self, layer: Layer) -> None:
        affine, scale = layer.affine, layer.scale
        self.plain, self.prenorm = layer.plain, layer.prenorm
        self.weight, self.bias_row = affine.weight.detach(), affine.bias.detach()[:, None]
        self.weight_t = self.weight.transpose(1, 2)
        self.d_weight, self.d_bias = gradient_of(affine.weight), gradient_of(affine.bias)
        self.scale = None if scale is None else scale.detach().view(-1, 1, 1)
        self.d_scale = None if scale is None else scale.grad
        self.all_plain = self.plain == len(self.weight)

    def forward(self, h: Tensor, room: _LayerMemory) -> Tensor:
        inner = h
        if self.prenorm:
            inner, room.mean, room.rstd = torch.native_layer_norm(h, h.shape[-1:], None, None, NORM_EPS)
            room.normed = inner
        torch.baddbmm(self.bias_row, inner, self.weight_t, out=room.pre)
        torch.clamp_min(room.pre, 0, out=room.out)
        if not self.all_plain:
            residual = room.out[self.plain :]
            if self.scale is not None:
                residual.mul_(self.scale)
            residual.add_(h[self.plain :])
        return room.out

    def backward(self, below: Tensor, room: _LayerMemory, memory: _StackMemory, need_input: bool) -> None:
        """Turns dLoss/dh above the layer (``memory.above``) into that below it."""
        above = through = memory.above
        if self.scale is not None:
            if self.d_scale is not None:  # every replica is residual here
                branch = torch.clamp_min(room.pre, 0, out=memory.below)
                torch.sum(branch.mul_(above), (1, 2), out=self.d_scale)
            through = memory.below.copy_(above)
            through[self.plain :].mul_(self.scale)
        d_pre = torch.ops.aten.threshold_backward.grad_input(through, room.pre, 0, grad_input=memory.d_pre)
        inner = room.normed if self.prenorm else below
        torch.bmm(d_pre.transpose(1, 2), inner, out=self.d_weight)
        torch.sum(d_pre, 1, out=self.d_bias)
        if not need_input:
            return
        d_inner = torch.bmm(d_pre, self.weight, out=memory.below)
        if self.prenorm:
            d_inner = torch.ops.aten.native_layer_norm_backward(
                d_inner, below, inner.shape[-1:], room.mean, room.rstd, None, None, [True, False, False]
            )[0]
        if not self.all_plain:
            d_inner[self.plain :].add_(above[self.plain :])
        memory.above, memory.below = d_inner, above


class NextTokenBackprop(InPlace, Backprop):
    """`Backprop` on a `NextToken`, under cross-entropy; equal to autograd up to rounding, in a third of its time.

    With e = E[x], z = W e + b and dz = (softmax(z) - y) / B, the gradients are dW = dz^T e, db = dz and dE[x] = W^T dz.
    """

    net: NextToken

    def locate(self) -> bool:
        """Detaches the parameters once; every step reads and writes through these views."""
        net = self.net
        self._embedding, self._weight, bias = (view.detach() for view in (net.embedding, net.weight, net.bias))
        self._weight_t, self._bias_row = self._weight.transpose(1, 2), bias[:, None]
        self._d_embedding, self._d_weight, self._d_bias = map(gradient_of, (net.embedding, net.weight, net.bias))
        return True

    def fill(self, x: TokenBatch, y: TokenTargets) -> Credit:
        """Fills the gradient of each replica's mean cross-entropy."""
        embedded = torch.gather(self._embedding, 1, x.index)  # (R, B, dim)
        logits = torch.baddbmm(self._bias_row, embedded, self._weight_t)  # (R, B, vocab)
        log_p = torch.log_softmax(logits, -1)
        size = log_p.shape[1]
        loss = nn.functional.nll_loss(log_p.view(-1, log_p.shape[2]), y.index, reduction="none")  # (R * B,)
        error = log_p.exp_().sub_(y.onehot)
        if size == 1:  # outer products, for which an element-wise product is cheaper than a batched one
            self._d_bias.copy_(error[:, 0])
            torch.mul(error.transpose(1, 2), embedded, out=self._d_weight)
            torch.mul(x.onehot, torch.bmm(error, self._weight), out=self._d_embedding)
            return Credit(loss, logits)
        error.div_(size)
        torch.sum(error, 1, out=self._d_bias)
        torch.bmm(error.transpose(1, 2), embedded, out=self._d_weight)
        torch.bmm(x.onehot, torch.bmm(error, self._weight), out=self._d_embedding)
        return Credit(loss.view(-1, size).mean(1), logits)


def accelerate_next_token_backprop(rule: Rule) -> Rule | None:
    """Returns the closed form of backpropagation on a `NextToken`."""
    serves = type(rule) is Backprop and type(rule.net) is NextToken and rule.loss is replica_cross_entropy
    return NextTokenBackprop(rule.net, loss=rule.loss) if serves else None
