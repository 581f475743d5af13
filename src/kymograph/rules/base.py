"""The contract of a learning rule: it fills a network's gradients, and neither clips them nor takes a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.models.blocks import BlockNetwork, parameter_names
from kymograph.rules.following import FollowedOptimizer
from kymograph.rules.losses import Loss, default_loss
from kymograph.shapes import Float

EXACT = "exact gradient of the loss"


class Setup(NamedTuple):
    """What every rule's ``build`` is given besides the network and the rule's own options."""

    loss: Loss | None = None
    generator: torch.Generator | None = None
    example: Any = None


class Credit:
    """The outcome of one backward pass, on the weights before the update."""

    __slots__ = ("_at_blocks", "logits", "loss")

    def __init__(
        self,
        loss: Float[Tensor, " replicas"],
        logits: Tensor,
        at_blocks: tuple[Tensor, ...] | Callable[[], tuple[Tensor, ...]] = (),
    ) -> None:
        self.loss = loss
        """The loss of each replica."""
        self.logits = logits
        """The outputs of the network, without their graph."""
        self._at_blocks = at_blocks

    @property
    def at_blocks(self) -> tuple[Tensor, ...]:
        """What the rule handed to each block's output in place of the gradient; empty if it uses the gradient."""
        if callable(self._at_blocks):
            self._at_blocks = self._at_blocks()
        return self._at_blocks


class LocalSignal(NamedTuple):
    """What a part descends, as data from which its gradient can be derived a second time."""

    matrix: Tensor | None = None
    """The matrix B (width, classes) that carries a signal to the part; None: the exact gradient arrives."""
    normalised: bool = False
    """Whether what arrives is divided, per sample, by its RMS."""
    penalty: float = 0.0
    """The factor of ||f||^2 that is added to the part's loss."""
    sent: Literal["error", "sign", "target"] = "error"
    """What the matrix carries: the output error, its sign, or the target as a one-hot vector."""
    noise: Callable[[Tensor], Tensor] | None = None
    """Maps output errors (batch, classes) to what arrives (batch, width), if that is drawn and not carried."""


class PlanLine(NamedTuple):
    """What one part of a network learns from."""

    part: str
    signal: str
    kind: Literal["exact", "nothing", "other"]
    """Whether that gives the part autograd's gradient, none at all, or one of the rule's own."""
    local: LocalSignal | None = None
    """What the part descends, if the gradient is the rule's own."""


class TrueFeedback(NamedTuple):
    """A rule given the feedback under which it must be backpropagation, and the batch for which that holds."""

    rule: Rule
    x: Any
    y: Any
    what: str
    """What replaced its feedback."""


class Rule(nn.Module, ABC):
    """Fills the gradient of every trainable parameter of a network for one batch.

    A rule's state (its buffers: feedback matrices and the like) is saved, moved and restored by ``state_dict`` and
    ``to``. The network is not part of it.

    Args:
        net: a network cut into blocks, or a network of replicas.
        loss: maps (outputs, targets) to a loss per replica, (R,), or to a scalar; None: the network's usual one.
    """

    net: nn.Module
    following: FollowedOptimizer
    feedback_law: str = ""
    """The distribution of its feedback matrices; empty if it has none, or if they were passed in."""
    title: str = ""
    """What error messages call the rule."""
    follows: bool = False
    """Whether its feedback changes with every update, so that each must be reported to it: see `attach`."""

    def __init__(self, net: nn.Module, loss: Loss | None = None) -> None:
        super().__init__()
        self.__dict__["net"] = net  # bypasses `nn.Module.__setattr__`, which would register it as a submodule
        chosen = loss if loss is not None else default_loss(net)
        if chosen is None:
            raise KymographError(f"{type(net).__name__} has no default loss; give one of kymograph.rules.losses")
        self.loss = chosen
        self.following = FollowedOptimizer()

    @abstractmethod
    def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
        """Adds this batch's gradients to ``.grad``, creating it where it is None; returns loss, outputs and credit.

        With ``accumulate=False`` the gradients overwrite the old ones in place.
        """

    def credit(self, error: Float[Tensor, "batch classes"], block: int) -> Float[Tensor, "batch width"]:
        """Returns what the rule hands to a block's output for the given output errors, before it is spread."""
        raise KymographError(f"{type(self).__name__} passes on the gradient itself and has no credit of its own")

    def direction(self, error: Float[Tensor, "batch classes"], block: int) -> Float[Tensor, "batch width"]:
        """Returns the credit before any per-sample normalisation, on which no cosine depends."""
        return self.credit(error, block)

    def matrices(self) -> list[Tensor]:
        """Returns the rule's feedback matrices, one per block; empty if it has none."""
        return []

    def feedback_of_embed(self) -> str:
        """Describes the matrix through which the embed learns; empty if there is none."""
        return ""

    @abstractmethod
    def plan(self) -> list[PlanLine]:
        """Returns what every part of the network learns from."""

    def feedback_tensors(self) -> dict[str, Tensor]:
        """Returns every tensor that the rule uses in place of a weight, or of a chain of weights, by name."""
        return {str(block): matrix for block, matrix in enumerate(self.matrices())}

    def attach(self, optimizer: Any) -> None:
        """Follows the steps of ``optimizer``, for rules that learn or redraw their feedback; does nothing for others.

        A torch optimizer then calls `before_update` and `after_update` itself.
        """
        if self.follows:
            self.following.attach(self, optimizer)

    def check_followed(self) -> None:
        """Raises if the feedback should change with the updates, but they were not reported to the rule."""
        if self.follows:
            self.following.check(self.net, self.title)

    def before_update(self) -> None:
        """Called right before the weights are updated, for rules that measure the step."""

    def after_update(self, step: int) -> None:
        """Called after update number ``step`` (from 0), for rules whose feedback changes too."""

    def derivation(self, x: Any, y: Any) -> dict[str, Tensor]:
        """Returns the gradients of parts, each as one vector, derived in another way than in `backward`.

        A missing part has no gradient of the rule's own: the plan says that it is exact, or nothing.
        """
        return {}

    def true_feedback(self, x: Any, y: Any) -> TrueFeedback | None:
        """Returns a copy of the rule with the feedback that makes it backpropagation; None if there is none."""
        return None

    def losses(self, outputs: Tensor, y: Any) -> Float[Tensor, " replicas"]:
        """Returns the loss of each replica, with its graph."""
        loss = self.loss(outputs, y)
        return loss if loss.dim() else loss[None]

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Returns the trainable parameters of each part: ``embed``, ``blocks.0``, ..., ``readout``."""
        named = {name: own for name, own in self.net.named_parameters() if own.requires_grad}
        return {
            part: [named[name] for name in names if name in named] for part, names in parameter_names(self.net).items()
        }

    def trained_parts(self) -> list[str]:
        """Returns the names of the parts that learn under this rule."""
        return [line.part for line in self.plan() if line.kind != "nothing"]

    def trained_parameters(self) -> list[nn.Parameter]:
        """Returns what to give to an optimizer: the others' gradients are zero, but weight decay would move them."""
        trained = set(self.trained_parts())
        return [own for part, parameters in self.parts().items() if part in trained for own in parameters]

    @contextmanager
    def filling(self, accumulate: bool) -> Iterator[None]:
        """Wraps a ``with`` block that fills the gradients; a parameter that has none afterwards gets zeros."""
        trainable = [own for own in self.net.parameters() if own.requires_grad]
        for parameter in trainable:
            if parameter.grad is not None and not accumulate:
                parameter.grad.zero_()
        yield
        for parameter in trainable:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)


class BlockRule(Rule):
    """A rule for networks that are cut into blocks."""

    net: BlockNetwork

    def __init__(self, net: nn.Module, loss: Loss | None = None) -> None:
        super().__init__(in_blocks(net), loss)

    def derivation(self, x: Any, y: Any) -> dict[str, Tensor]:
        """Returns the gradient of each part whose plan says what it descends, from a local loss."""
        from kymograph.rules.local_losses import local_gradients  # which imports this module

        return local_gradients(self, x, y)

    def block_names(self) -> list[str]:
        """Returns ``blocks.0`` to ``blocks.L-1``."""
        return [f"blocks.{number}" for number in range(len(self.net.blocks))]


def in_blocks(net: nn.Module) -> BlockNetwork:
    """Returns ``net`` if it is cut into blocks; raises otherwise."""
    if not isinstance(net, BlockNetwork):
        raise KymographError(
            f"this rule needs a network cut into blocks, which {type(net).__name__} is not; see kymograph.models.cut"
        )
    return net


def add_gradients(losses: Float[Tensor, " replicas"], parameters: list[nn.Parameter]) -> None:
    """Adds the gradient of each replica's loss to the ``.grad`` of ``parameters``.

    Replicas share no parameter, so the gradient of the sum is every replica's own gradient.
    """
    if parameters:
        losses.sum().backward(inputs=parameters)  # a scalar: for a vector torch would import sympy, which is slow
