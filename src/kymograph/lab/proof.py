"""What ``kymograph rules`` does: prove every registered rule on a network at its first weights."""

from __future__ import annotations

from collections.abc import Iterator

from kymograph import streams
from kymograph.data import load_task
from kymograph.data.batches import Batches
from kymograph.models.flat import FlatNetwork
from kymograph.probes.measures.cosine import cosine
from kymograph.rules import RULES
from kymograph.rules.proof import PartProof, identities, prove, with_true_chain
from kymograph.studies.image_training import draw_network, make_rule
from kymograph.studies.snapshot import Snapshot, SnapshotConfig
from kymograph.sweep.devices import choose_device

IMAGES = 64
UNUSED_WIDTH = 64
"""The width of a network that no arm describes."""


def prove_arms(model: str, seed: int = 42, device: str = "cpu") -> Iterator[tuple[str, list[PartProof]]]:
    """Yields every rule on ``model`` under the name of its arm, with the proof of each part, in float64."""
    batches = Batches(load_task("digits"), IMAGES, device)
    x, y = batches.test(IMAGES)
    for name, config in _rules_on(model):
        draw = streams.script_generator(seed)
        net = draw_network(config, batches.task, draw).to(device)
        FlatNetwork(net)  # as the study trains it
        rule = make_rule(config, net, batches, draw)
        net.double()
        rule.double()
        yield name, prove(rule, x.double(), y)


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
        if rule not in used or not known:  # a model of the user's own has no arm
            yield f"{model}/{rule}", SnapshotConfig(model=model, rule=rule, width=UNUSED_WIDTH)


def rules_text(model: str, seed: int, device: str = "cpu") -> tuple[str, bool]:
    """Returns the plans and proofs of all rules on ``model`` as text, and whether everything holds."""
    chosen = choose_device(device, float64=True)
    lines, holds = [f"{model} at its first weights, seed {seed}, {IMAGES} images of digits, float64"], True
    for arm, proofs in prove_arms(model, seed, chosen):
        lines += ["", arm]
        width = max(len(proof.line.part) for proof in proofs)
        for proof in proofs:
            holds &= proof.holds
            lines.append(
                f"  {_mark(proof.holds):<5} {proof.line.part:<{width}}  {_measured(proof):<58}  {proof.line.signal}"
            )
    chained = with_true_chain(streams.script_generator(seed), IMAGES, chosen)
    holds &= chained <= CLOSE
    what = "DFA with the true chain in place of every B is autograd's (linear blocks)"
    return "\n".join([*lines, "", f"  {_mark(chained <= CLOSE):<5} {what}: {_apart(chained)}"]), holds


def _mark(holds: bool) -> str:
    return "ok" if holds else "WRONG"


def _measured(proof: PartProof) -> str:
    if proof.zero:
        return "exactly zero"
    if proof.line.kind == "exact" and proof.difference <= CLOSE:
        return f"autograd's ({_apart(proof.difference)})"
    planned = f"as planned ({_apart(proof.difference)})" if proof.difference <= CLOSE else "not as planned"
    return f"{planned}, cosine {float(cosine(proof.found, proof.autograd)):+.3f} with autograd's"


def _apart(difference: float) -> str:
    return "to the bit" if difference == 0 else f"apart by {difference:.0e}"
