"""Rules that replace the weights in the backward pass, layer by layer, in any network: the base of the FA family."""

from __future__ import annotations

import copy
from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph.models.blocks import BlockNetwork, evaluation_mode, parameter_names
from kymograph.models.examples import guess_example
from kymograph.models.flat import ReplicaNetwork
from kymograph.rules.base import EXACT, Credit, PlanLine, Rule, Setup, TrueFeedback, add_gradients
from kymograph.rules.layers.carrying import Carrying
from kymograph.rules.layers.inspection import layers_above
from kymograph.rules.layers.surrogate import Surrogate
from kymograph.rules.layers.weights import NamedTensors, same_layout, weights_of

WHOLE = "network"
"""The part of parameters that belong to no layer, but to the network itself."""


class LayerRule(Rule):
    """A rule whose signal comes back through B instead of W in every layer.

    Everything without weights passes it on exactly: activations, norms, pooling, attention between tokens, skips. A
    subclass defines B. Nothing in the network is replaced or hooked.

    Args:
        net: any network whose products with weights are linear layers, convolutions or matrix products.
        setup: the loss, the generator of random feedback and an example, which makes `plan` known before training.
    """

    _above: dict[str, set[str]] | None
    """The weights that each parameter's signal comes through; None until a forward pass was inspected."""

    def __init__(self, net: nn.Module, setup: Setup) -> None:
        if isinstance(net, ReplicaNetwork):
            raise KymographError(f"{self.title} supports only single networks, and {type(net).__name__} has replicas")
        compiled = next((name for name, module in net.named_modules() if _compiled(module)), None)
        if compiled is not None:
            where = f"its {compiled}" if compiled else "it"
            raise KymographError(
                f"{self.title} cannot see into compiled code, so it would be backpropagation there; hand over the "
                f"network before torch.compile or torch.jit ({where} is compiled)"
            )
        super().__init__(net, setup.loss)
        self._above, self._example = None, setup.example

    @abstractmethod
    def feedback_of(self, name: str) -> Tensor:
        """Returns what replaces the weight called ``name`` in the backward pass, in its shape and layout."""

    @abstractmethod
    def give_true_feedback(self) -> None:
        """Sets the rule's tensors so that each weight is replaced by itself."""

    def weights(self) -> dict[str, nn.Parameter]:
        """Returns the weights that have feedback, by name."""
        return weights_of(self.net)

    def carrying_weights(self) -> dict[str, nn.Parameter]:
        """Returns the weights that a signal comes back through; not a first layer's, below which nothing learns."""
        through = set().union(*self._signals().values())
        return {name: own for name, own in self.weights().items() if name in through}

    def backward(self, x: Any, y: Any, *, accumulate: bool = True) -> Credit:
        """Adds the gradients of all parameters, from one forward pass of the network's own code."""
        self.check_followed()
        at_blocks: dict[int, Tensor] = {}
        with self.filling(accumulate), Carrying(self.weights(), self.feedback_of, self.title):
            outputs = self._forward(x, at_blocks)
            losses = self.losses(outputs, y)
            if self._above is None:
                self._inspect(outputs)
            # Inside the mode as well, for layers that are recomputed in the backward pass.
            add_gradients(losses, [own for own in self.net.parameters() if own.requires_grad])
        return Credit(losses.detach(), outputs.detach(), tuple(at_blocks[number] for number in sorted(at_blocks)))

    def _forward(self, x: Any, at_blocks: dict[int, Tensor]) -> Tensor:
        """Returns the outputs; the backward pass puts the signals at the blocks' outputs into ``at_blocks``."""
        net = self.net
        if not isinstance(net, BlockNetwork):
            outputs: Tensor = net(x)
            return outputs
        points = net.stream(x)
        for number, point in enumerate(points[1:]):
            if point.requires_grad:
                point.register_hook(lambda signal, number=number: at_blocks.__setitem__(number, signal))
        return net.readout(points[-1])

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Returns the trainable parameters of each layer, under the name of the module that owns them."""
        found: dict[str, list[nn.Parameter]] = {}
        for name, own in self.net.named_parameters():
            if own.requires_grad:
                found.setdefault(name.rpartition(".")[0] or WHOLE, []).append(own)
        return found

    def trained_parts(self) -> list[str]:
        """Returns every part of the network: all of it learns."""
        return list(parameter_names(self.net))

    def trained_parameters(self) -> list[nn.Parameter]:
        """Returns all trainable parameters."""
        return [own for own in self.net.parameters() if own.requires_grad]

    def plan(self) -> list[PlanLine]:
        """Returns, for every layer, through which layers' feedback its signal comes."""
        above = self._signals()
        lines = []
        for part, parameters in self.parts().items():
            names = {name for name, own in self.net.named_parameters() if any(own is one for one in parameters)}
            reached = [above[name] for name in names if name in above]
            if not reached:
                lines.append(PlanLine(part, "nothing: the outputs do not depend on it", "nothing"))
                continue
            through = set().union(*reached)
            order = [name for name in self.weights() if name in through]
            signal = (
                f"the loss's gradient, carried back by {self.feedback_text(order)}; exact elsewhere" if order else EXACT
            )
            lines.append(PlanLine(part, signal, "other" if order else "exact"))
        return lines

    def feedback_text(self, names: list[str]) -> str:
        """Describes what replaces the weights called ``names``."""
        short = [name.removesuffix(".weight") for name in names]
        listed = ", ".join(short) if len(short) <= 3 else f"{short[0]} to {short[-1]} ({len(short)} weights)"
        return f"B of {listed}"

    def _signals(self) -> dict[str, set[str]]:
        if self._above is None:
            example = guess_example(self.net) if self._example is None else self._example
            with evaluation_mode(self.net), Carrying(self.weights(), self.feedback_of, self.title):
                self._inspect(self.net(example))
        assert self._above is not None
        return self._above

    def _inspect(self, outputs: Tensor) -> None:
        self._above = layers_above(self.net, outputs, self.weights(), self.title)

    def derivation(self, x: Any, y: Any) -> dict[str, Tensor]:
        """Returns every layer's gradient by plain autograd, with the value and gradient of each product kept apart."""
        twin = copy.deepcopy(self)
        parts = {part: own for part, own in twin.parts().items() if own}
        flat = [own for parameters in parts.values() for own in parameters]
        with Surrogate(twin.weights(), twin.feedback_of, self.title):
            losses = twin.losses(twin.net(x), y)
            gradients = torch.autograd.grad(losses.sum(), flat, allow_unused=True, materialize_grads=True)
        by_id = {id(own): gradient for own, gradient in zip(flat, gradients, strict=True)}
        return {part: torch.cat([by_id[id(own)].flatten() for own in own_parts]) for part, own_parts in parts.items()}

    def true_feedback(self, x: Any, y: Any) -> TrueFeedback | None:
        """Returns the rule with every B set to its W."""
        twin = copy.deepcopy(self)
        twin.give_true_feedback()
        return TrueFeedback(twin, x, y, "the weights themselves as feedback")


class HeldFeedback(LayerRule):
    """A rule that holds one tensor B for each weight.

    Args:
        feedback: B of each weight, in the weight's own shape.
    """

    feedback: NamedTensors

    def __init__(self, net: nn.Module, setup: Setup, feedback: dict[str, Tensor], law: str = "") -> None:
        super().__init__(net, setup)
        own = {name: same_layout(feedback[name], weight) for name, weight in self.weights().items()}
        self.feedback, self.feedback_law = NamedTensors(own), law

    def feedback_of(self, name: str) -> Tensor:
        """Returns B."""
        return self.feedback[name]

    def feedback_tensors(self) -> dict[str, Tensor]:
        """Returns B of every weight."""
        return self.feedback.tensors()

    @torch.no_grad()
    def give_true_feedback(self) -> None:
        """Sets every B to its W."""
        for name, weight in self.weights().items():
            self.feedback[name].copy_(weight)


LAW = "N(0, rms(W)^2), W the weight that it stands for, before training"


def initial_rms(weight: Tensor) -> float:
    """Returns the root mean square of a weight, its standard deviation if its mean is zero."""
    return float(weight.detach().cpu().double().square().mean().sqrt())  # not every device has float64


def drawn_like(net: nn.Module, setup: Setup, title: str) -> dict[str, Tensor]:
    """Returns a normal tensor for every weight, with the root mean square that the weight has now."""
    if setup.generator is None:
        raise KymographError(f"{title} draws random feedback; give make(...) a generator")
    found = {}
    for name, weight in weights_of(net).items():
        values = torch.randn(weight.shape, generator=setup.generator)
        found[name] = values * initial_rms(weight)
    return found


def _compiled(module: nn.Module) -> bool:
    return (
        isinstance(module, torch.jit.ScriptModule)
        or getattr(module, "_compiled_call_impl", None) is not None
        or type(module).__name__ == "OptimizedModule"
    )
