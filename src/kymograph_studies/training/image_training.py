"""Training one network on images and measuring it epoch by epoch, for every image study."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import kymograph as ky
from kymograph import KymographError, RunResult, RunSeries, RunSpec, Workplace
from kymograph._io.writing import plain
from kymograph._runs.resume import read_resume_state, write_resume_state
from kymograph._runs.spec import settings_of
from kymograph.quantities import as_float64
from kymograph_studies.analysis.alarms import active_alarms, first_epochs, growth_per_block, summary_key
from kymograph_studies.analysis.flow import BUFFER, accuracy, diagnose
from kymograph_studies.data import load_task
from kymograph_studies.data.images import Batches, ImageTask
from kymograph_studies.models import draw_model
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules import RULES, make
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.feedback import feedback_hash
from kymograph_studies.script_randomness import script_generator
from kymograph_studies.training import checkpoints
from kymograph_studies.training.image_study import ImageSettings, seeds_by_source
from kymograph_studies.training.loop import ClipParts, Update, cosine_to_zero
from kymograph_studies.training.loop import train as training
from kymograph_studies.training.optimizers import AdamW, Sgd

RESUME = "resume.safetensors"
PER_POINT = {"hidden_norms": "stream_norm", "grad_norms": "stream_grad", "grad_norms_F": "stream_grad_F"}
PER_BLOCK = ("cos_in", "cos_out")
PLAIN = ("acc_eval", "loss_eval", "train_loss", "test_accuracy", "gamma", "below_floor", "error_norm")


@dataclass(frozen=True)
class Fitted:
    """A trained network and everything measured during training."""

    config: ImageSettings
    task: ImageTask
    batches: Batches
    net: BlockNetwork
    rule: Rule
    rows: list[dict[str, Any]]
    notes: tuple[str, ...] = ()
    """What a reader of the run should know."""

    @property
    def feedback(self) -> list[Tensor]:
        """The rule's feedback matrices, one per block; empty if it has none."""
        return self.rule.matrices()


def fit(spec: RunSpec, config: ImageSettings, work: Workplace, parts: Sequence[str] | None = None) -> Fitted:
    """Trains the network of ``config`` at the spec's seed, from the start or from its resume state.

    ``parts`` names what is trained (``embed``, ``blocks.0``, ..., ``readout``); default: all that the rule trains.
    """
    seeds = seeds_by_source(spec.seed, config.vary)
    task = load_task(config.data, work.data_dir)
    if seeds.split is not None:
        task = task.resplit(seeds.split)
    batches = Batches(task, config.batch_size, work.device)
    net = make_network(config, task, seeds.initialisation).to(work.device)
    flat = FlatNetwork(net)
    rule = make_rule(config, net, batches, _feedback_generator(config, task, seeds.feedback))
    optimizer = make_optimizer(config, flat, rule.trained_parts() if parts is None else parts)
    update = Update(optimizer, [ClipParts(flat.block_spans, 1.0)] if config.clip else [])
    buffer = batches.test(BUFFER)
    tests = batches.test()
    credit = rule.direction if rule.matrices() else None

    directory = work.directory(spec) if config.checkpoint_every else None
    first, rows, notes = _resume(directory, spec, config.epochs, checkpoints.training_state(flat, optimizer, rule))

    def measure(epoch: int, train_loss: float) -> None:
        row: dict[str, Any] = {"epoch": epoch, **diagnose(net, *buffer, credit), "train_loss": train_loss}
        row["test_accuracy"] = accuracy(net, *tests)
        rows.append(row)
        loss = "" if math.isnan(train_loss) else f"loss {train_loss:.3g}, "  # nothing is trained at epoch 0
        alarms = " and ".join(active_alarms(row, len(buffer[1])))
        text = f"{loss}accuracy {row['test_accuracy']:.3f}, ‖h_L‖ {row['hidden_norms'][-1]:.3g}"
        work.say(f"{text}, alarm: {alarms}" if alarms else text)

    if first == 0:
        measure(0, float("nan"))
    else:
        work.tick(first * batches.per_epoch)
    for epoch in range(first, config.epochs):
        optimizer.lr = cosine_to_zero(config.lr, epoch, config.epochs)
        losses = []
        labelled = _labelled(config, task.classes, batches.epoch(seeds.order, epoch), seeds.order, epoch)
        for step in training(labelled, rule, update, epoch * batches.per_epoch):
            losses.append(step.loss)
        work.tick(len(losses))
        done = epoch + 1
        if done % config.log_every == 0 or done == config.epochs:
            measure(done, float(as_float64(torch.cat(losses)).mean()))
        if directory is not None and done % config.checkpoint_every == 0 and done < config.epochs:
            state = {"epoch": done, "rows": rows, "training": checkpoints.training_state(flat, optimizer, rule)}
            write_resume_state(directory / RESUME, state, {"run": spec.id})
    return Fitted(config, task, batches, net, rule, rows, notes)


def make_network(config: ImageSettings, task: ImageTask, seed: int) -> BlockNetwork:
    """Returns the network with the initial weights of its seed, which arms of one architecture share."""
    return draw_network(config, task, script_generator(seed))


def _feedback_generator(config: ImageSettings, task: ImageTask, seed: int) -> torch.Generator:
    """Returns the generator in its state after drawing a network: the script draws its matrices after the weights."""
    draw = script_generator(seed)
    draw_network(config, task, draw)
    return draw


def draw_network(config: ImageSettings, task: ImageTask, draw: torch.Generator) -> BlockNetwork:
    """Returns the network with initial weights from ``draw``.

    With a generator seeded with the seed itself, they are the weights that the script's network has on a CPU after
    `torch.manual_seed`, and the feedback matrices drawn next are its matrices. Results depend so strongly on the
    matrices that different ones make a different experiment.
    """
    channels, size, _ = task.shape
    return draw_model(
        config.model,
        channels,
        size,
        task.classes,
        draw,
        depth=config.depth,
        width=config.width,
        out_ln=config.out_ln,
        skip=config.skip,
        expansion=config.expansion,
        w2_std=config.w2_std,
    )


def make_rule(config: ImageSettings, net: BlockNetwork, batches: Batches, draw: torch.Generator) -> Rule:
    """Returns the learning rule that the configuration names; feedback is drawn from ``draw``, right after the net."""
    name = RULES.part(config.rule).properties.get("normalised", config.rule) if config.rms else config.rule
    settings: dict[str, Any] = {"normalise": config.rms, "penalty": config.penalty, "shared_embed": True}
    options = {key: settings[key] for key in RULES.part(name).properties.get("options", ()) if key in settings}
    return make(name, net, generator=draw, example=batches.test(2)[0], **options)


def make_optimizer(config: ImageSettings, flat: FlatNetwork, parts: Sequence[str] | None = None) -> AdamW | Sgd:
    """Returns the optimizer over ``parts``, or over all; the others keep their initial values."""
    trained = [name for name in flat.spans if parts is None or name in parts]
    spans = None if len(trained) == len(flat.spans) else [flat.spans[name] for name in trained]  # one call covers all
    if config.optimizer == "sgd":
        return Sgd(flat, config.lr, config.wd, spans)
    return AdamW(flat, config.lr, config.wd, spans)


def _labelled(
    config: ImageSettings, classes: int, batches: Iterable[tuple[Tensor, Tensor]], seed: int, epoch: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yields the batches, with fresh random labels if the configuration asks for them."""
    draw = ky.generator(seed, "random targets", str(epoch))
    for x, y in batches:
        yield x, torch.randint(0, classes, y.shape, generator=draw).to(y.device) if config.random_targets else y


def _resume(
    directory: Path | None, spec: RunSpec, epochs: int, state: dict[str, Tensor]
) -> tuple[int, list[dict[str, Any]], tuple[str, ...]]:
    """Restores the state of a killed run; returns the epoch to resume at, the rows measured so far, and notes.

    A state that is damaged or from other code is not used: the run starts over, and a note says why.
    """
    if directory is None:
        return 0, [], ()
    saved, why = read_resume_state(directory / RESUME, {"run": spec.id})
    if saved is not None:
        try:
            epoch, rows = saved["epoch"], saved["rows"]
            if not isinstance(epoch, int) or not 0 < epoch < epochs or not isinstance(rows, list):
                raise ValueError("its epoch or its rows are invalid")
            checkpoints.restore(state, saved["training"], directory / RESUME)
            return epoch, rows, ()
        except (KymographError, KeyError, TypeError, ValueError):
            why = "its state on disk does not fit its network"
    return 0, [], (f"the run started over, because {why}",) if why else ()


def result(spec: RunSpec, fitted: Fitted) -> RunResult:
    """Returns a trained run's series, summary and checkpoint."""
    config, task, net, rule, rows = fitted.config, fitted.task, fitted.net, fitted.rule, fitted.rows
    epochs = np.array([row["epoch"] for row in rows])
    points = tuple(f"h_{number}" for number in range(config.depth + 1))
    blocks = tuple(f"block_{number}" for number in range(config.depth))
    series = {name: RunSeries(epochs, _column(rows, key), points) for key, name in PER_POINT.items()}
    series |= {name: RunSeries(epochs, _column(rows, name)) for name in PLAIN if name in rows[0]}
    if "cos_in" in rows[0]:
        series |= {name: RunSeries(epochs, _column(rows, name), blocks) for name in PER_BLOCK}
    last = rows[-1]
    buffer = min(BUFFER, len(task.test))
    at_2 = last["grad_norms"][2] if config.depth >= 2 else None  # a network of one block has no h_2
    summary = {
        "test_accuracy": last["test_accuracy"],
        "acc_eval": last["acc_eval"],
        "loss_eval": last["loss_eval"],
        "train_loss": last["train_loss"],
        "initial_h_L": rows[0]["hidden_norms"][-1],
        "final_h_L": last["hidden_norms"][-1],
        "final_g_2": at_2,
        "final_g_2_script": None if at_2 is None else at_2 / buffer,
        "final_g_L": last["grad_norms"][-1],
        "final_sensitivity": last["grad_norms"][-1] / last["error_norm"] if last.get("error_norm") else None,
        "final_error_norm": last.get("error_norm"),
        "final_g_2_per_error": at_2 / last["error_norm"] if at_2 is not None and last.get("error_norm") else None,
        "gradient_elasticity": _elasticity(rows) if config.depth >= 2 else None,
        "final_gamma": last.get("gamma"),
        "final_below_floor": last.get("below_floor"),
        "largest_growth_per_block": growth_per_block(last["hidden_norms"]),
        **{summary_key(name): epoch for name, epoch in first_epochs(rows, buffer).items()},
        "buffer_size": buffer,
        "data_digest": task.digest(),
        "classes": task.classes,
        "parameters": sum(parameter.numel() for parameter in net.parameters()),
        "finite": bool(np.isfinite(_column(rows, "hidden_norms")).all()),
    }
    tensors = checkpoints.network_tensors(net) | _rule_tensors(rule)
    properties: dict[str, Any] = {
        "identity": spec.identity,
        "network": settings_of(config),
        "test_accuracy": last["test_accuracy"],
    }
    feedback = rule.feedback_tensors()
    if feedback:
        law = {"feedback_law": rule.feedback_law} if rule.feedback_law else {}
        of_feedback = seeds_by_source(spec.seed, config.vary).feedback
        marks = {**law, "feedback_seed": of_feedback, "feedback_hash": feedback_hash(feedback.values())}
        of_embed = rule.feedback_of_embed()
        summary |= {**marks, **({"feedback_of_embed": of_embed} if of_embed else {})}
        properties |= marks
    return RunResult(series, summary, checkpoints.pack_network(tensors, plain(properties)), fitted.notes)


def _rule_tensors(rule: Rule) -> dict[str, Tensor]:
    """Returns a rule's state: ``feedback.L`` for each block's matrix, ``rule.NAME`` for every other tensor."""
    matrices = rule.matrices()
    addresses = {matrix.data_ptr() for matrix in matrices}
    rest = {name: tensor for name, tensor in rule.state_dict().items() if tensor.data_ptr() not in addresses}
    feedback = {f"feedback.{number}": matrix for number, matrix in enumerate(matrices)}
    return feedback | {f"rule.{name}": tensor for name, tensor in rest.items()}


def _elasticity(rows: list[dict[str, Any]]) -> float | None:
    """Returns the slope of log ||g_2|| over log ||h_L|| during training: -1 if the gradient falls as the stream grows.

    None if fewer than three measurements have both, or if the stream keeps its size.
    """
    stream, gradient = _column(rows, "hidden_norms")[:, -1], _column(rows, "grad_norms")[:, 2]
    both = np.isfinite(stream) & np.isfinite(gradient) & (stream > 0) & (gradient > 0)
    if both.sum() < 3:
        return None
    x, y = np.log(stream[both]), np.log(gradient[both])
    x, y = x - x.mean(), y - y.mean()
    return float((x @ y) / (x @ x)) if (x @ x) > 0 else None


def _column(rows: list[dict[str, Any]], key: str) -> np.ndarray:
    return np.array([row[key] for row in rows], dtype=np.float64)
