"""Feedback alignment, Kolen-Pollack and the weight mirror: rules that replace each weight in the backward pass."""

from __future__ import annotations

import copy
from abc import abstractmethod
from itertools import islice
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from kymograph import KymographError
from kymograph.quantities import evaluation_mode
from kymograph_studies.models.blocks import BlockNetwork, parameter_names
from kymograph_studies.models.cut import guess_example
from kymograph_studies.models.flat import ReplicaNetwork
from kymograph_studies.rules.base import EXACT, Credit, PlanLine, Rule, Setup, TrueFeedback, add_gradients
from kymograph_studies.rules.feedback import UpdateStream
from kymograph_studies.rules.layers.carrying import Carrying, Surrogate
from kymograph_studies.rules.layers.weights import NamedTensors, layers_above, same_layout, weights_of

PARTS = {
    "fa": {
        "attribute": "FeedbackAlignment.drawn",
        "order": 6,
        "about": "feedback alignment: the signal comes back through fixed random matrices instead of the weights",
        "acts_on": "layers",
    },
    "kp": {
        "attribute": "KolenPollack.drawn",
        "order": 10,
        "about": "Kolen-Pollack: feedback alignment whose matrices take the weights' own steps, and decay",
        "acts_on": "layers",
        "learns": True,
    },
    "wm": {
        "attribute": "WeightMirror.drawn",
        "order": 11,
        "about": "weight mirror: feedback alignment whose matrices are learned from the layers' responses to noise",
        "options": ("eta", "samples"),
        "acts_on": "layers",
    },
}


LAW = "N(0, rms(W)^2), W the weight that it stands for, before training"
WHOLE = "network"
"""The part of parameters that belong to no layer, but to the network itself."""


def _compiled(module: nn.Module) -> bool:
    return (
        isinstance(module, torch.jit.ScriptModule)
        or getattr(module, "_compiled_call_impl", None) is not None
        or type(module).__name__ == "OptimizedModule"
    )


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
        return {name: weight for name, weight in self.weights().items() if name in through}

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
            add_gradients(losses, self.trained_parameters())
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
        layers: dict[str, list[nn.Parameter]] = {}
        for name, parameter in self.net.named_parameters():
            if parameter.requires_grad:
                layers.setdefault(name.rpartition(".")[0] or WHOLE, []).append(parameter)
        return layers

    def trained_parts(self) -> list[str]:
        """Returns every part of the network: all of it learns."""
        return list(parameter_names(self.net))

    def trained_parameters(self) -> list[nn.Parameter]:
        """Returns all trainable parameters."""
        return [parameter for parameter in self.net.parameters() if parameter.requires_grad]

    def plan(self) -> list[PlanLine]:
        """Returns, for every layer, through which layers' feedback its signal comes."""
        above = self._signals()
        names = {id(parameter): name for name, parameter in self.net.named_parameters()}
        lines = []
        for part, parameters in self.parts().items():
            reached = [above[name] for parameter in parameters if (name := names[id(parameter)]) in above]
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
        parts = twin.parts()
        flat = [parameter for parameters in parts.values() for parameter in parameters]
        with Surrogate(twin.weights(), twin.feedback_of, self.title):
            losses = twin.losses(twin.net(x), y)
            gradients = torch.autograd.grad(losses.sum(), flat, allow_unused=True, materialize_grads=True)
        rest = iter(gradients)
        return {
            part: torch.cat([gradient.flatten() for gradient in islice(rest, len(parameters))])
            for part, parameters in parts.items()
        }

    def true_feedback(self, x: Any, y: Any) -> TrueFeedback | None:
        """Returns the rule with every B set to its W."""
        twin = copy.deepcopy(self)
        twin.give_true_feedback()
        return TrueFeedback(twin, x, y, "the weights themselves as feedback")


Held = TypeVar("Held", bound="HeldFeedback")


class HeldFeedback(LayerRule):
    """A rule that holds one tensor B for each weight.

    Args:
        feedback: B of each weight, in the weight's own shape.
    """

    feedback: NamedTensors

    def __init__(self, net: nn.Module, setup: Setup, feedback: dict[str, Tensor], law: str = "") -> None:
        super().__init__(net, setup)
        tensors = {name: same_layout(feedback[name], weight) for name, weight in self.weights().items()}
        self.feedback, self.feedback_law = NamedTensors(tensors), law

    @classmethod
    def drawn(cls: type[Held], net: nn.Module, setup: Setup, **options: Any) -> Held:
        """Returns the rule with feedback drawn for every weight."""
        return cls(net, setup, drawn_like(net, setup, cls.title), LAW, **options)

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


class FeedbackAlignment(HeldFeedback):
    """FA: every B is drawn once, at the scale of its weight, and kept."""

    title = "fa"


class KolenPollack(HeldFeedback):
    """Kolen-Pollack (1994; Akrout et al., 2019, arXiv:1904.05391): B takes the same steps as W, and decays too.

    With the step dW that any optimizer took, and its decay a = learning rate * weight decay,

        B <- B + dW + a (W - B):   the step of W, with the decay of B in place of that of W.

    So W - B shrinks by the factor 1 - a with every step, under SGD, momentum and Adam alike, and B converges to W.
    Needs `attach` and an optimizer with weight decay.
    """

    title = "kp"
    follows = True

    def __init__(self, net: nn.Module, setup: Setup, feedback: dict[str, Tensor], law: str = "") -> None:
        super().__init__(net, setup, feedback, law)
        self._before: dict[str, Tensor] = {}

    def before_update(self) -> None:
        """Copies the weights before the step."""
        before = self._before
        for name, weight in self.carrying_weights().items():
            if name in before and before[name].shape == weight.shape and before[name].dtype == weight.dtype:
                before[name].copy_(weight.detach())
            else:
                before[name] = weight.detach().clone(memory_format=torch.preserve_format)

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Moves every B by the step that its weight took, and lets it decay."""
        before = self._before
        self.following.note_update()
        decays = []
        for name, weight in self.carrying_weights().items():
            rates = self.following.rates(weight, self.title)
            if rates is None:  # the optimizer does not move this weight
                continue
            if name not in before:
                raise KymographError(
                    "kp measures every step; call rule.before_update() before each, or rule.attach(optimizer) once"
                )
            decays.append(rates.decay)
            start = before[name]
            self.feedback[name].lerp_(start, rates.lr * rates.decay).add_(weight).sub_(start)
        if decays and not any(decays):
            raise KymographError(
                "kp needs weight decay: without it B never approaches W; set weight_decay in the optimizer"
            )


class WeightMirror(HeldFeedback):
    """The weight mirror (Akrout et al., 2019, arXiv:1904.05391): B learns W from how each layer responds to noise.

    After every update, white noise x is fed to each layer separately, and the responses y = W x are correlated with it:
    E[y x^T] = W. B moves a little towards that estimate, B <- B + eta (y x^T - B), so its decay bounds its size. The
    noise is fresh for every layer: noise that has passed through a layer is no longer white.

    Args:
        eta: how far B moves towards an estimate. The remaining angle between B and W has a squared tangent of about
            eta * inputs / (2 * samples).
        samples: how many noise vectors each layer gets after an update.
    """

    title = "wm"
    follows = True

    def __init__(
        self,
        net: nn.Module,
        setup: Setup,
        feedback: dict[str, Tensor],
        law: str = "",
        *,
        eta: float = 0.01,
        samples: int = 32,
    ) -> None:
        if not 0 < eta <= 1 or samples < 1:
            raise KymographError(f"wm needs eta in (0, 1] and at least one sample, not {eta} and {samples}")
        super().__init__(net, setup, feedback, law)
        self.eta, self.samples, self.stream = eta, samples, UpdateStream(setup, self.title)

    @torch.no_grad()
    def after_update(self, step: int) -> None:
        """Moves every B towards the correlation of its layer's responses with the noise that was fed in."""
        self.following.note_update()
        for name, weight in self.carrying_weights().items():
            rows = weight.detach().flatten(1)  # of a kernel: all weights of one output or, if transposed, of one input
            noise = self.stream.normal(name, weight, self.samples, rows.shape[1])
            estimate = (rows @ noise.t()) @ noise / self.samples
            self.feedback[name].lerp_(estimate.view(weight.shape), self.eta)
        self.stream.advance()


def initial_rms(weight: Tensor) -> float:
    """Returns the root mean square of a weight, its standard deviation if its mean is zero."""
    return float(weight.detach().cpu().double().square().mean().sqrt())  # not every device has float64


def drawn_like(net: nn.Module, setup: Setup, title: str) -> dict[str, Tensor]:
    """Returns a normal tensor for every weight, with the root mean square that the weight has now."""
    if setup.generator is None:
        raise KymographError(f"{title} draws random feedback; give make(...) a generator")
    draw = setup.generator
    return {
        name: torch.randn(weight.shape, generator=draw) * initial_rms(weight)
        for name, weight in weights_of(net).items()
    }
