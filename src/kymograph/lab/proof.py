"""Behind ``kymograph rules``: proves every registered rule, on a study's network or on the user's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from kymograph import streams
from kymograph.data import load_task
from kymograph.data.batches import Batches
from kymograph.errors import KymographError
from kymograph.lab.user_model import load_model
from kymograph.models.flat import FlatNetwork
from kymograph.probes.measures.cosine import cosine
from kymograph.rules import RULES, make
from kymograph.rules.base import Rule
from kymograph.rules.proof import CLOSE, Identity, PartProof, identities, prove, with_true_chain
from kymograph.studies.image_training import draw_network, make_rule
from kymograph.studies.snapshot import Snapshot, SnapshotConfig
from kymograph.sweep.devices import choose_device

IMAGES = 16
UNUSED_WIDTH = 16
"""The width of a network that no arm describes."""


@dataclass(frozen=True)
class RuleProof:
    """The proof of one rule on one network: part by part, and for the rule as a whole."""

    name: str
    parts: Sequence[PartProof] = ()
    identities: Sequence[Identity] = field(default_factory=list)
    refused: str = ""
    """Why the rule does not act on this network; empty if it does."""

    @property
    def holds(self) -> bool:
        """Whether everything holds; trivially so for a rule that refuses the network."""
        return all(part.holds for part in self.parts) and all(one.holds for one in self.identities)


def prove_arms(model: str, seed: int = 42, device: str = "cpu") -> Iterator[RuleProof]:
    """Yields the proof of every rule on ``model``, under the name of its arm, in float64."""
    batches = Batches(load_task("digits"), IMAGES, device)
    x, y = batches.test(IMAGES)
    for name, config in _rules_on(model):
        draw = streams.script_generator(seed)
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
        draw = streams.generator(seed, "feedback")
        try:
            rule = make(name, net, loss=loss, generator=draw, example=_example(x), blocks=blocks or None)
            yield _proved(name, rule, x, y)
        except KymographError as error:
            yield RuleProof(name, refused=str(error))


def _proved(name: str, rule: Rule, x: Any, y: Any) -> RuleProof:
    rule.net.double()
    rule.double()
    x, y = _double(x), _double(y)
    return RuleProof(name, prove(rule, x, y), list(identities(rule, x, y)))


def _example(x: Any) -> Any:
    return x[:2] if isinstance(x, Tensor) else x


def _moved(data: Any, device: str) -> Any:
    return data.to(device) if isinstance(data, Tensor) else data


def _double(data: Any) -> Any:
    return data.double() if isinstance(data, Tensor) and data.is_floating_point() else data


def _rules_on(model: str) -> Iterator[tuple[str, SnapshotConfig]]:
    """Yields the rules of the study's arms on ``model``, each once, and then the registered rules that no arm uses."""
    known: set[tuple[object, ...]] = set()
    used: set[str] = set()
    for arm in Snapshot().arms():
        config = SnapshotConfig(**{**arm.preset, **arm.treatment})
        facts = RULES.part(config.rule).facts
        used.add(facts.get("normalised", config.rule) if config.rms else config.rule)
        kind = (config.rule, config.rms, config.penalty)
        if config.model == model and kind not in known:
            known.add(kind)
            yield arm.name, config
    for rule in RULES.names():
        if rule not in used or not known:  # a user's model has no arm
            yield f"{model}/{rule}", SnapshotConfig(model=model, rule=rule, width=UNUSED_WIDTH)


def rules_text(
    model: str, seed: int, device: str = "cpu", own: str | None = None, blocks: Sequence[str] = ()
) -> tuple[str, bool]:
    """Returns the plans and proofs of all rules on ``model``, or on a user's ``own``, and whether everything holds."""
    chosen = choose_device(device, float64=True)
    title = f"{model} at its initial weights, seed {seed}, {IMAGES} images of digits, float64"
    lines, holds = [title if own is None else f"{own}, seed {seed}, float64"], True
    for proof in prove_arms(model, seed, chosen) if own is None else prove_user_model(own, seed, chosen, blocks):
        holds &= proof.holds
        lines += ["", proof.name, *_rule_lines(proof)]
    chained = with_true_chain(streams.script_generator(seed), IMAGES, chosen)
    what = "dfa with the true chain in place of every B is autograd's (linear blocks)"
    chain = Identity(what, chained, max(CLOSE.values()))
    return "\n".join([*lines, "", _identity_line(chain)]), holds and chain.holds


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
    return f"{planned}, cosine {float(cosine(proof.found, proof.autograd)):+.3f} with autograd's"


def _difference_text(difference: float) -> str:
    return "bit for bit" if difference == 0 else f"off by {difference:.0e}"
