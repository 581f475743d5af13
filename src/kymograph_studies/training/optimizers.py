"""Optimizers on flat parameters: one call for all parameters of all replicas.

torch's functional forms are used where they exist: the classes of `torch.optim` would import the compiler, which takes
more than a second. Those classes give the same numbers and work with every rule too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from kymograph_studies.models.flat import Flat, FlatNetwork, FlatParameters


class Optimizer(Protocol):
    """Moves weights along the negative gradient."""

    @property
    def flat(self) -> Flat:
        """The parameters and gradients it works on."""
        ...

    def step(self) -> None:
        """Changes ``flat.values`` in place from ``flat.gradients``."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Returns the tensors that a resumed run must restore."""
        ...


class SgdPerReplica:
    """Plain gradient descent with a learning rate per replica."""

    def __init__(self, flat: FlatParameters, lr: Tensor) -> None:
        self.flat = flat
        self._negative_lr = -lr[:, None]  # (R, 1)

    def step(self) -> None:
        """w <- w - lr * g."""
        self.flat.values.addcmul_(self.flat.gradients, self._negative_lr)

    def state(self) -> dict[str, Tensor]:
        """Returns an empty dictionary: there is no state."""
        return {}


class _Moments:
    """The state of Adam and AdamW: the running means of the gradients and of their squares."""

    def __init__(self, values: Tensor, steps: Tensor) -> None:
        self.mean, self.square, self.steps = torch.zeros_like(values), torch.zeros_like(values), steps

    def state(self) -> dict[str, Tensor]:
        """Returns the moments and the number of steps."""
        return {"mean": self.mean, "square": self.square, "steps": self.steps}


def _fused(
    function: Callable[..., None],
    pieces: Sequence[Sequence[Tensor]],
    steps: Sequence[Tensor],
    lr: float,
    weight_decay: float,
) -> None:
    """Takes one step of torch's `adam` or `adamw` with its defaults; pieces: values, gradients, means, squares."""
    function(
        *map(list, pieces),
        [],
        list(steps),
        fused=True,
        foreach=False,
        capturable=False,
        differentiable=False,
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=lr,
        weight_decay=weight_decay,
        eps=1e-8,
        maximize=False,
    )


class Adam(_Moments):
    """Adam (Kingma and Ba, 2015) with torch's defaults, fused over all parameters of all replicas."""

    def __init__(self, flat: FlatParameters, lr: float) -> None:
        super().__init__(flat.values, torch.zeros((), device=flat.values.device))
        self.flat, self._lr = flat, lr

    @torch.no_grad()
    def step(self) -> None:
        """Takes one Adam step."""
        pieces = [[matrix] for matrix in (self.flat.values, self.flat.gradients, self.mean, self.square)]
        _fused(adam, pieces, [self.steps], self._lr, 0.0)


class AdamW(_Moments):
    """AdamW (Loshchilov and Hutter, 2019) on the trained parts of a single network; `lr` may be set at any time.

    Args:
        trained: the columns of the parts that are trained; the others neither move nor decay. Default: all.
    """

    def __init__(
        self, flat: FlatNetwork, lr: float, weight_decay: float, trained: Sequence[slice] | None = None
    ) -> None:
        self.flat, self.lr, self.weight_decay, self._trained = flat, lr, weight_decay, _columns(flat, trained)
        super().__init__(flat.values, torch.zeros(len(self._trained), device=flat.values.device))

    @torch.no_grad()
    def step(self) -> None:
        """Takes one AdamW step."""
        matrices = (self.flat.values, self.flat.gradients, self.mean, self.square)
        pieces = [[matrix[0, span] for span in self._trained] for matrix in matrices]
        _fused(adamw, pieces, self.steps.unbind(), self.lr, self.weight_decay)


class Sgd:
    """Gradient descent with weight decay on the trained parts of a single network; `lr` may be set at any time.

    Args:
        trained: the columns of the parts that are trained; the others neither move nor decay. Default: all.
    """

    def __init__(
        self, flat: FlatNetwork, lr: float, weight_decay: float = 0.0, trained: Sequence[slice] | None = None
    ) -> None:
        self.flat, self.lr, self.weight_decay, self._trained = flat, lr, weight_decay, _columns(flat, trained)

    @torch.no_grad()
    def step(self) -> None:
        """w <- w - lr (g + decay w)."""
        for span in self._trained:
            values = self.flat.values[0, span]
            values.mul_(1 - self.lr * self.weight_decay).add_(self.flat.gradients[0, span], alpha=-self.lr)

    def state(self) -> dict[str, Tensor]:
        """Returns an empty dictionary: there is no state."""
        return {}


def _columns(flat: FlatNetwork, trained: Sequence[slice] | None) -> Sequence[slice]:
    return [slice(0, flat.values.shape[1])] if trained is None else trained
