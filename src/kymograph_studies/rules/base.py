"""The contract of a learning rule: it fills a network's gradients, and neither clips them nor takes a step.

A rule states in its plan what each part of the network learns from. For a rule that hands credit to blocks, the plan
alone yields the gradients a second time (`BlockRule.derivation`); `kymograph_studies.rules.proof` compares the two.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from kymograph import KymographError
from kymograph._shapes import Float
from kymograph_studies.models.blocks import BlockNetwork, parameter_names
from kymograph_studies.models.flat import ReplicaNetwork
from kymograph_studies.rules.losses import Loss, cross_entropy, rows_of, target_of

EXACT = "exact gradient of the loss"
RMS_EPSILON = 1e-6
"""Added to the RMS before dividing by it, as in the script."""
MISSED = 3
"""Unreported updates before a rule raises: a single one may mean that other weights were loaded."""


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

    @property
    def exact(self) -> bool:
        """Whether the exact gradient arrives."""
        return self.matrix is None and self.noise is None


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


class Rates(NamedTuple):
    """How an optimizer moves one parameter."""

    lr: float
    decay: float
    """The weight decay, which is multiplied by the learning rate, in SGD as in AdamW."""


class FollowedOptimizer:
    """The optimizer that a rule follows, if any, and the updates that it may have missed."""

    def __init__(self) -> None:
        self.optimizer: Any = None
        self._updates, self._missed, self._version = 0, 0, -1

    def attach(self, rule: Rule, optimizer: Any) -> None:
        """Makes ``rule`` follow ``optimizer``: one of torch's, or one of ours, whose loop calls the rule itself."""
        if self.optimizer is optimizer:
            return
        if self.optimizer is not None:
            raise KymographError("this rule already follows another optimizer; make a new rule")
        self.optimizer = optimizer
        if hasattr(optimizer, "register_step_post_hook"):  # not isinstance: torch.optim takes a second to import

            def after(*_: Any) -> None:
                rule.after_update(self._updates)
                self._updates += 1

            optimizer.register_step_pre_hook(lambda *_: rule.before_update())
            optimizer.register_step_post_hook(after)

    def rates(self, parameter: nn.Parameter, title: str) -> Rates | None:
        """Returns how the optimizer moves ``parameter``; None if it does not. Raises if there is no optimizer."""
        if self.optimizer is None:
            raise KymographError(
                f"{title} learns its feedback from the steps that are taken; call rule.attach(optimizer) first"
            )
        groups = getattr(self.optimizer, "param_groups", None)
        if groups is None:
            return Rates(self.optimizer.lr, self.optimizer.weight_decay)
        for group in groups:
            if any(moved is parameter for moved in group["params"]):
                return Rates(float(group["lr"]), float(group.get("weight_decay", 0.0)))
        return None

    def note_update(self) -> None:
        """Records that an update was reported to the rule."""
        self._missed = 0

    def check(self, net: nn.Module, title: str) -> None:
        """Raises if the weights keep changing without reports to the rule, which would make it a different rule."""
        version = sum(parameter._version for parameter in net.parameters())
        if self._version not in (-1, version):
            self._missed += 1
        self._version = version
        if self._missed >= MISSED:
            raise KymographError(
                f"{title} changes its feedback with every update; call rule.attach(optimizer) once, or "
                "rule.after_update(step) after each step"
            )


class Rule(nn.Module, ABC):
    """Fills the gradient of every trainable parameter of a network for one batch.

    A rule's state (its buffers: feedback matrices and the like) is saved, moved and restored by ``state_dict`` and
    ``to``. The network is not part of it.

    Args:
        net: a network cut into blocks, or a network of replicas.
        loss: maps (outputs, targets) to a loss per replica, (R,), or to a scalar; default: cross-entropy,
            except for a network of replicas, which has none.
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
        if loss is None and isinstance(net, ReplicaNetwork):
            raise KymographError(
                f"{type(net).__name__} has no default loss; give one of kymograph_studies.rules.losses"
            )
        self.loss = cross_entropy if loss is None else loss
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
        named = {name: parameter for name, parameter in self.net.named_parameters() if parameter.requires_grad}
        return {
            part: [named[name] for name in names if name in named] for part, names in parameter_names(self.net).items()
        }

    def trained_parts(self) -> list[str]:
        """Returns the names of the parts that learn under this rule."""
        return [line.part for line in self.plan() if line.kind != "nothing"]

    def trained_parameters(self) -> list[nn.Parameter]:
        """Returns what to give to an optimizer: the others' gradients are zero, but weight decay would move them."""
        trained = set(self.trained_parts())
        return [parameter for part, parameters in self.parts().items() if part in trained for parameter in parameters]

    @contextmanager
    def filling(self, accumulate: bool) -> Iterator[None]:
        """Wraps a ``with`` block that fills the gradients; a parameter that has none afterwards gets zeros."""
        trainable = [parameter for parameter in self.net.parameters() if parameter.requires_grad]
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

    def block_names(self) -> list[str]:
        """Returns ``blocks.0`` to ``blocks.L-1``."""
        return [f"blocks.{number}" for number in range(len(self.net.blocks))]

    def descend(self, roots: Iterable[tuple[Tensor, Tensor]], accumulate: bool) -> None:
        """Adds the gradients of one backward pass that starts at every root with its signal."""
        learning = [(root, signal) for root, signal in roots if root.requires_grad]
        with self.filling(accumulate):
            if learning:
                torch.autograd.backward([root for root, _ in learning], [signal for _, signal in learning])

    def derivation(self, x: Any, y: Any) -> dict[str, Tensor]:
        """Returns the gradient of each part whose plan says what it descends, as one vector, from a local loss.

        What a part descends is taken from the plan alone, so these are the plan's gradients and not those of the code.
        """
        net = copy.deepcopy(self.net)
        states = [_random_state()]  # of torch's generators, before each part
        points = [net.embed(x)]  # h_0 to h_L
        if not points[0].requires_grad:  # an embed with nothing to learn
            points[0] = points[0].detach().requires_grad_()
        for block in net.blocks:
            states.append(_random_state())
            points.append(net.join(points[-1], block(points[-1])))
        logits = net.readout(points[-1])
        loss = self.losses(logits, y).sum()
        error, *at_points = torch.autograd.grad(loss, [logits, *points], materialize_grads=True, allow_unused=True)
        numbers = {part: number for number, part in enumerate(["embed", *self.block_names()])}
        vectors = {}
        for line in self.plan():
            if line.local is None:
                continue
            number = numbers[line.part]
            part = net.embed if number == 0 else net.blocks[number - 1]
            parameters = [parameter for parameter in part.parameters() if parameter.requires_grad]
            if not parameters:
                continue
            _set_random_state(states[number])  # so that dropout drops the same units
            # The part's output, from an input without a graph.
            out = part(x if number == 0 else points[number - 1].detach())
            # The loss is a mean, so a sample's own gradient is its share times the number of samples (or of positions,
            # if the outputs have some).
            count = len(y) if line.local.exact else rows_of(logits)
            credit = _credit(net, line.local, count * error, logits, y, count * at_points[number], out)
            local = (out * credit).sum() / count
            if line.local.penalty:
                local = local + line.local.penalty * out.square().flatten(1).sum(1).mean()
            gradients = torch.autograd.grad(local, parameters, allow_unused=True, materialize_grads=True)
            vectors[line.part] = torch.cat([gradient.flatten() for gradient in gradients])
        return vectors


def _credit(
    net: BlockNetwork, local: LocalSignal, error: Tensor, logits: Tensor, y: Any, gradient: Tensor, out: Tensor
) -> Tensor:
    """Returns what a part's output is multiplied by in its local loss, per sample."""
    if local.noise is not None:
        signal = local.noise(error)
    elif local.matrix is None:
        signal = gradient.flatten(1)
    else:
        sent = target_of(logits, y) if local.sent == "target" else error.sign() if local.sent == "sign" else error
        signal = torch.einsum("wc,...c->...w", local.matrix, sent)
    if local.normalised:
        signal = signal / (signal.square().mean(-1, keepdim=True).sqrt() + RMS_EPSILON)
    return signal.view_as(out) if local.exact else net.spread(signal, out)


def _random_state() -> tuple[Tensor, list[Tensor]]:
    return torch.get_rng_state(), torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []


def _set_random_state(state: tuple[Tensor, list[Tensor]]) -> None:
    torch.set_rng_state(state[0])
    if state[1]:
        torch.cuda.set_rng_state_all(state[1])


def in_blocks(net: nn.Module) -> BlockNetwork:
    """Returns ``net`` if it is cut into blocks; raises otherwise."""
    if not isinstance(net, BlockNetwork):
        raise KymographError(
            f"this rule needs a network cut into blocks, which {type(net).__name__} is not; "
            "see kymograph_studies.models.cut"
        )
    return net


def add_gradients(losses: Float[Tensor, " replicas"], parameters: list[nn.Parameter]) -> None:
    """Adds the gradient of each replica's loss to the ``.grad`` of ``parameters``.

    Replicas share no parameter, so the gradient of the sum is every replica's own gradient.
    """
    if parameters:
        losses.sum().backward(inputs=parameters)  # a scalar: for a vector torch would import sympy, which is slow
