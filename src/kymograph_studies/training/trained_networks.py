"""Trained networks from disk: our safetensors, and the script's ``.pt`` without executing pickled code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from kymograph import KymographError
from kymograph._errors import first_line
from kymograph._io.files import is_directory, is_file
from kymograph._runs.record import CHECKPOINT, STATUS, read_file, read_status
from kymograph.quantities import evaluation_mode
from kymograph_studies.data import load_task
from kymograph_studies.data.images import ImageTask
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.models.feedforward import ResidualMLP
from kymograph_studies.training import checkpoints
from kymograph_studies.training.checkpoints import read_pt
from kymograph_studies.training.image_study import ImageSettings, seeds_by_source
from kymograph_studies.training.image_training import make_network


@dataclass(frozen=True)
class Trained:
    """A network with its feedback matrices and what is known about its training."""

    net: BlockNetwork
    feedback: list[Tensor]
    accuracy: float | None
    data: str | None
    untrained: BlockNetwork | None
    config: ImageSettings | None = None
    """How the run was trained; None for a script's file, which does not say."""
    seed: int | None = None

    def to(self, device: str) -> Trained:
        """Returns everything moved to ``device``."""
        untrained = None if self.untrained is None else self.untrained.to(device)
        feedback = [matrix.to(device) for matrix in self.feedback]
        return replace(self, net=self.net.to(device), feedback=feedback, untrained=untrained)

    def task(self, data: str | None, data_dir: str | Path | None) -> ImageTask:
        """Returns the images to measure on: those named, or the ones it was trained on, split as in training."""
        task = load_task(data or self.data or "cifar10", data_dir)
        if self.config is None or self.seed is None or task.name != self.config.data:
            return task
        split = seeds_by_source(self.seed, self.config.vary).split
        return task if split is None else task.resplit(split)

    def check_images(self, images: Tensor, task: ImageTask, path: str | Path) -> None:
        """Raises if the network does not take these images of ``task``, or has too few outputs for its classes.

        On a GPU, a label without an output would kill the whole process.
        """
        try:
            with evaluation_mode(self.net), torch.no_grad():
                classes = self.net(images[:1]).shape[1]
        except RuntimeError as error:
            raise KymographError(f"{path} does not take images of {task.name}: {first_line(error)}") from None
        if classes < task.classes:
            counted = f"it distinguishes {classes} classes, not {task.classes}"
            raise KymographError(f"{path} does not take images of {task.name}: {counted}")


def load(
    path: str | Path, need_feedback: bool = True, data_dir: str | Path | None = None, device: str = "cpu"
) -> Trained:
    """Loads a network from a run's directory, its ``checkpoint.safetensors``, or a script's ``.pt``.

    Args:
        path: the directory or file.
        need_feedback: refuses networks that were not trained by DFA.
        data_dir: the directory of data sets that are not embedded.
        device: the device to load it to.
    """
    file = Path(path)
    if is_directory(file):
        file = file / CHECKPOINT
    if file.suffix == ".safetensors":
        trained = _ours(file, _checked_content(file), need_feedback, data_dir)
    elif is_file(file):
        trained = _scripts(file)
    else:
        raise KymographError(f"there is no checkpoint {file}")
    numbers = [*trained.net.parameters(), *trained.feedback]
    if not all(bool(tensor.isfinite().all()) for tensor in numbers):
        raise KymographError(f"{file} contains numbers that are not finite; such a network cannot be measured")
    return trained.to(device)


def _checked_content(path: Path) -> bytes | None:
    """Returns the bytes of a run's network, checked against the run's status; None for a file outside any run."""
    if path.name == CHECKPOINT and is_file(path.parent / STATUS):
        return read_file(path.parent, CHECKPOINT, read_status(path.parent))
    if not is_file(path):
        raise KymographError(f"there is no checkpoint {path}")
    return None


def _ours(path: Path, content: bytes | None, need_feedback: bool, data_dir: str | Path | None) -> Trained:
    tensors, metadata = checkpoints.unpack_network(path, content)
    identity, settings = metadata.get("identity"), metadata.get("network")
    try:
        config = ImageSettings(**settings) if isinstance(settings, dict) else None
    except TypeError:
        config = None
    if config is None or not isinstance(identity, dict) or not _has_plausible_size(config, identity, tensors):
        raise KymographError(f"{path} is not the network of a run that was trained on images")
    task = load_task(config.data, data_dir)
    start = seeds_by_source(identity["seed"], config.vary).initialisation
    net, untrained = (make_network(config, task, start) for _ in range(2))
    checkpoints.restore(checkpoints.network_tensors(net), tensors, path)
    feedback = [tensors[f"feedback.{n}"] for n in range(config.depth) if f"feedback.{n}" in tensors]
    if len(feedback) != config.depth and (need_feedback or feedback or config.rule == "dfa"):
        raise KymographError(
            f"{path} has {len(feedback)} feedback matrices for {config.depth} blocks; calibrate a DFA run"
        )
    accuracy = _accuracy(metadata.get("test_accuracy"), path)
    return Trained(net, _fitting(net, feedback, path), accuracy, config.data, untrained, config, identity["seed"])


def _has_plausible_size(config: ImageSettings, identity: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> bool:
    """Returns whether the network that a file describes is no larger than its tensors suggest."""
    whole = (config.depth, config.width, config.expansion, identity.get("seed"))
    if not all(type(number) is int for number in whole) or config.depth < 1:
        return False
    return config.depth * config.width**2 * config.expansion <= 4 * sum(tensor.numel() for tensor in tensors.values())


def _scripts(path: Path) -> Trained:
    """Reads ``state_dict``, ``Bs`` and ``test_acc``."""
    content = read_pt(path)
    if not isinstance(content, dict) or not isinstance(content.get("state_dict"), Mapping):
        raise KymographError(f"{path} has no state_dict, so it is not a checkpoint of the calibration script")
    net = _script_network(content["state_dict"], path)
    matrices = content.get("Bs")
    if isinstance(matrices, Mapping):
        matrices = [matrices[key] for key in sorted(matrices, key=str)]
    if not isinstance(matrices, list | tuple) or len(matrices) != len(net.blocks):
        raise KymographError(f"{path} needs one feedback matrix in Bs for each of its {len(net.blocks)} blocks")
    return Trained(net, _fitting(net, list(matrices), path), _accuracy(content.get("test_acc"), path), None, None)


def _accuracy(value: Any, path: Path) -> float | None:
    """Returns the test accuracy stored in a file; None if there is none."""
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise KymographError(f"the test accuracy in {path} must be a fraction, not {str(value)[:40]!r}")
    return float(value)


def _script_network(state: Mapping[str, Any], path: Path) -> BlockNetwork:
    """Builds the residual MLP that a state dict describes, whatever its layers inside a block are called."""
    wrong = KymographError(f"{path} does not contain the script's residual MLP (embed, blocks, out_ln, out_head)")
    if not all(isinstance(tensor, Tensor) for tensor in state.values()):
        raise wrong
    parts: dict[str, list[Tensor]] = {}
    for name, tensor in state.items():
        words = str(name).split(".")
        key = ".".join(words[:2]) if words[0] == "blocks" else words[0]
        parts.setdefault(key, []).append(tensor.float())
    depth = sum(key.startswith("blocks.") for key in parts)
    wanted = {"embed": 2, "out_ln": 2, "out_head": 2, **{f"blocks.{number}": 6 for number in range(depth)}}
    if not depth or any(len(parts.get(key, [])) != count for key, count in wanted.items() if key != "out_ln"):
        raise wrong
    width, inputs = parts["embed"][0].shape if parts["embed"][0].dim() == 2 else (0, 0)
    if not width:
        raise wrong
    classes, out_ln = len(parts["out_head"][1]), "out_ln" in parts
    expansion = max(1, parts["blocks.0"][2].shape[0] // width)
    net = ResidualMLP(inputs, 1, classes, depth, width, expansion=expansion, out_ln=out_ln)
    order = ["embed", *(f"blocks.{number}" for number in range(depth)), *(["out_ln"] if out_ln else []), "out_head"]
    stored = [tensor for key in order for tensor in parts[key]]
    ours = list(net.parameters())
    if [tuple(t.shape) for t in stored] != [tuple(p.shape) for p in ours]:
        raise wrong
    with torch.no_grad():
        for parameter, tensor in zip(ours, stored, strict=True):
            parameter.copy_(tensor)
    return net


def _fitting(net: BlockNetwork, feedback: list[Any], path: Path) -> list[Tensor]:
    """Returns the matrices in float32; raises unless each is (width, classes)."""
    width, classes = net.head.weight.shape[1], net.head.weight.shape[0]  # type: ignore[index]
    for number, matrix in enumerate(feedback):
        if not isinstance(matrix, Tensor) or tuple(matrix.shape) != (width, classes):
            raise KymographError(f"{path}: feedback matrix {number} is not {width} x {classes}")
    return [matrix.float() for matrix in feedback]
