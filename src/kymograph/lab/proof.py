"""What ``kymograph rules`` does: prove the rules of the snapshot study, on its networks at their first weights."""

from __future__ import annotations

from collections.abc import Iterator

from kymograph import streams
from kymograph.data import load_task
from kymograph.data.batches import Batches
from kymograph.models.flat import FlatNetwork
from kymograph.probes.measures.cosine import cosine
from kymograph.rules.proof import CLOSE, PartProof, prove, with_true_chain
from kymograph.studies.image_training import draw_network, make_rule
from kymograph.studies.snapshot import Snapshot, SnapshotConfig
from kymograph.sweep.devices import choose_device

IMAGES = 64


def prove_arms(model: str, seed: int = 42, device: str = "cpu") -> Iterator[tuple[str, list[PartProof]]]:
    """Yields every arm of ``model`` whose rule differs from those before, with the proof of each part, in float64."""
    batches = Batches(load_task("digits"), IMAGES, device)
    x, y = batches.test(IMAGES)
    known: set[tuple[object, ...]] = set()
    for arm in Snapshot().arms():
        config = SnapshotConfig(**{**arm.preset, **arm.treatment})
        kind = (config.rule, config.rms, config.penalty)
        if config.model != model or kind in known:
            continue
        known.add(kind)
        draw = streams.script_generator(seed)
        net = draw_network(config, batches.task, draw).to(device)
        FlatNetwork(net)  # as the study trains it
        rule = make_rule(config, net, batches, draw)
        net.double()
        rule.double()
        yield arm.name, prove(rule, x.double(), y)


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
