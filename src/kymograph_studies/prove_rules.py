"""Behind ``kymograph rules``: proves every registered rule, on a study's network or on the user's."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import kymograph as ky
from kymograph import KymographError
from kymograph._errors import first_line
from kymograph._io.files import real_path
from kymograph._sweep.code_loading import without_bytecode
from kymograph.quantities import cosine, evaluation_mode
from kymograph.studies import choose_device
from kymograph_studies.data import load_task
from kymograph_studies.data.images import Batches
from kymograph_studies.models.cut import guess_example
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules import RULES, make
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.losses import Loss, cross_entropy
from kymograph_studies.rules.proof import CLOSE, Identity, PartProof, identities, prove, with_true_chain
from kymograph_studies.script_randomness import script_generator
from kymograph_studies.snapshot import Snapshot, SnapshotConfig
from kymograph_studies.training.image_training import draw_network, make_rule

IMAGES = 16
UNUSED_WIDTH = 16
"""The width of a network that no arm describes."""


@dataclass(frozen=True)
class RuleProof:
    """The proof of one rule on one network: part by part, and for the rule as a whole."""

    name: str
    parts: Sequence[PartProof] = ()
    identities: Sequence[Identity] = ()
    refused: str = ""
    """Why the rule does not act on this network; empty if it does."""

    @property
    def holds(self) -> bool:
        """Whether everything holds; trivially so for a rule that refuses the network."""
        return all(part.holds for part in self.parts) and all(identity.holds for identity in self.identities)


def rules_text(
    model: str, seed: int, device: str = "cpu", network: str | None = None, blocks: Sequence[str] = ()
) -> tuple[str, bool]:
    """Returns the plans and proofs of all rules on ``model``, or on a user's ``network``, and whether all hold."""
    chosen = choose_device(device, float64=True)
    title = f"{model} at its initial weights, seed {seed}, {IMAGES} images of digits, float64"
    lines, holds = [title if network is None else f"{network}, seed {seed}, float64"], True
    for proof in (
        prove_arms(model, seed, chosen) if network is None else prove_user_model(network, seed, chosen, blocks)
    ):
        holds &= proof.holds
        lines += ["", proof.name, *_rule_lines(proof)]
    chained = with_true_chain(script_generator(seed), IMAGES, chosen)
    what = "dfa with the true chain in place of every B is autograd's (linear blocks)"
    chain = Identity(what, chained, max(CLOSE.values()))
    return "\n".join([*lines, "", _identity_line(chain)]), holds and chain.holds


def prove_arms(model: str, seed: int = 42, device: str = "cpu") -> Iterator[RuleProof]:
    """Yields the proof of every rule on ``model``, under the name of its arm, in float64."""
    batches = Batches(load_task("digits"), IMAGES, device)
    x, y = batches.test(IMAGES)
    for name, config in _rules_on(model):
        draw = script_generator(seed)
        net = draw_network(config, batches.task, draw).to(device)
        FlatNetwork(net)  # as the study trains it
        yield _proved(name, make_rule(config, net, batches, draw), x, y)


def prove_user_model(
    reference: str, seed: int = 42, device: str = "cpu", blocks: Sequence[str] = ()
) -> Iterator[RuleProof]:
    """Yields the proof of every registered rule on the network that ``file.py:function`` returns, in float64."""
    for name in RULES.names():
        net, x, y, loss = load_model(reference, seed)
        net, x, y = net.to(device), _moved(x, device), _moved(y, device)
        example = x[:2] if isinstance(x, Tensor) else x
        draw = ky.generator(seed, "feedback")
        try:
            rule = make(name, net, loss=loss, generator=draw, example=example, blocks=blocks or None)
            yield _proved(name, rule, x, y)
        except KymographError as error:
            yield RuleProof(name, refused=str(error))


def _proved(name: str, rule: Rule, x: Any, y: Any) -> RuleProof:
    rule.net.double()
    rule.double()
    x, y = _double(x), _double(y)
    return RuleProof(name, prove(rule, x, y), list(identities(rule, x, y)))


def _moved(data: Any, device: str) -> Any:
    return data.to(device) if isinstance(data, Tensor) else data


def _double(data: Any) -> Any:
    return data.double() if isinstance(data, Tensor) and data.is_floating_point() else data


def _rules_on(model: str) -> Iterator[tuple[str, SnapshotConfig]]:
    """Yields the rules of the study's arms on ``model``, each once, and then the registered rules that no arm uses."""
    on_model: set[tuple[object, ...]] = set()
    used: set[str] = set()
    for arm in Snapshot().arms():
        config = SnapshotConfig(**{**arm.preset, **arm.treatment})
        properties = RULES.part(config.rule).properties
        used.add(properties.get("normalised", config.rule) if config.rms else config.rule)
        kind = (config.rule, config.rms, config.penalty)
        if config.model == model and kind not in on_model:
            on_model.add(kind)
            yield arm.name, config
    for rule in RULES.names():
        if rule not in used or not on_model:  # a user's model has no arm
            yield f"{model}/{rule}", SnapshotConfig(model=model, rule=rule, width=UNUSED_WIDTH)


def _rule_lines(proof: RuleProof) -> list[str]:
    if proof.refused:
        return [f"  does not act on this network: {proof.refused}"]
    width = max((len(part.line.part) for part in proof.parts), default=0)
    parts = [
        f"  {_mark(part.holds):<5} {part.line.part:<{width}}  {_measured(part):<58}  {part.line.signal}"
        for part in proof.parts
    ]
    return [*parts, *map(_identity_line, proof.identities)]


def _identity_line(identity: Identity) -> str:
    counted = identity.limit == 0.0  # the difference counts lines that do not hold, and the sentence names them
    return f"  {_mark(identity.holds):<5} {identity.what}" + (
        "" if counted else f": {_difference_text(identity.difference)}"
    )


def _mark(holds: bool) -> str:
    return "ok" if holds else "WRONG"


def _measured(proof: PartProof) -> str:
    if proof.zero:
        return "exactly zero"
    if proof.line.kind == "exact" and proof.as_planned:
        return f"autograd's ({_difference_text(proof.difference)})"
    planned = f"as planned ({_difference_text(proof.difference)})" if proof.as_planned else "not as planned"
    return f"{planned}, cosine {float(cosine(proof.gradient, proof.autograd)):+.3f} with autograd's"


def _difference_text(difference: float) -> str:
    return "bit for bit" if difference == 0 else f"off by {difference:.0e}"


class UserModel(NamedTuple):
    """A network with a batch and the loss that it is trained with."""

    net: nn.Module
    x: Any
    y: Any
    loss: Loss


def load_model(reference: str, seed: int = 42, samples: int = 16) -> UserModel:
    """Returns the network that ``file.py:function`` makes, alone or with ``x, y`` or ``x, y, loss``.

    Without a batch, inputs are guessed from the first layer, and random targets are drawn: classes, with the
    cross-entropy, for outputs (batch, classes), and real numbers, with the squared error, for outputs of other shapes.
    """
    make_model = _function(reference)
    try:
        made = make_model()
    except Exception as error:  # a user's function can fail in any way
        raise KymographError(f"{reference} fails: {first_line(error)}") from None
    net, *rest = made if isinstance(made, tuple) else (made,)
    if not isinstance(net, nn.Module) or len(rest) not in (0, 2, 3):
        raise KymographError(f"{reference} must return a network, or (network, x, y), or (network, x, y, loss)")
    if rest:
        x, y, *loss = rest
        return UserModel(net, x, y, loss[0] if loss else cross_entropy)
    draw = ky.generator(seed, "model", "batch")
    x = guess_example(net, samples, draw)
    with evaluation_mode(net), torch.no_grad():
        outputs = net(x)
    if outputs.dim() == 2:
        return UserModel(net, x, torch.randint(outputs.shape[-1], (samples,), generator=draw), cross_entropy)
    return UserModel(net, x, torch.randn(outputs.shape, generator=draw).to(outputs), nn.functional.mse_loss)


def _function(reference: str) -> Callable[[], Any]:
    file, _, name = reference.rpartition(":")
    path = Path(file)
    if not name or path.suffix != ".py":
        raise KymographError(f"name a function in a file, as in model.py:make_model, not {reference!r}")
    if not path.is_file():
        raise KymographError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.append(str(real_path(path).parent))  # so that it can import its neighbours
    try:
        with without_bytecode():
            spec.loader.exec_module(module)
    except Exception as error:  # a user's file can fail to load in any way
        raise KymographError(f"cannot load {file}: {first_line(error)}") from None
    finally:
        sys.path.pop()
    function: Callable[[], Any] | None = getattr(module, name, None)
    if not callable(function):
        raise KymographError(f"{file} defines no function {name!r}")
    return function
