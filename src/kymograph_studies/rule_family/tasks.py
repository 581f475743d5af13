"""A run's network, and its training, validation and test sets, which have no sample in common."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

import kymograph as ky
from kymograph import KymographError
from kymograph_studies.data import load_task
from kymograph_studies.data.generated import marked_sums
from kymograph_studies.data.images import Batches
from kymograph_studies.models import draw_model
from kymograph_studies.models.blocks import BlockNetwork, initialise
from kymograph_studies.models.transformers import TokenTransformer
from kymograph_studies.rule_family import RuleFamilyConfig
from kymograph_studies.rule_family.arms import TOKENS

BATCH_NORM = "-bn"
"""The suffix of a network's name that adds batch norm to it."""
VALUES, LENGTH = 8, 8
"""Of the sequences: the number of values, and of tokens."""
FITTED = 256
"""The most training samples on which the fit is measured."""


class Samples(NamedTuple):
    """Inputs and their classes."""

    x: Tensor
    y: Tensor


class Epochs(Protocol):
    """The batches of a training set."""

    def epoch(self, seed: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields the batches of one epoch, in an order specific to it."""
        ...


@dataclass(frozen=True)
class FamilyTask:
    """The three sets of one seed."""

    batches: Epochs
    fitted: Samples
    """Training samples, on which the fit and the alignment are measured."""
    validation: Samples
    test: Samples
    classes: int
    shape: tuple[int, ...]
    """For images: channels, height and width; for sequences: vocabulary size and length."""
    digest: str


def family_task(config: RuleFamilyConfig, seed: int, device: str, data_dir: Path | None) -> FamilyTask:
    """Returns the data of one seed, with a split of its own."""
    if config.data == TOKENS:
        return _sequences(config, seed, device)
    return _images(config, seed, device, data_dir)


def _images(config: RuleFamilyConfig, seed: int, device: str, data_dir: Path | None) -> FamilyTask:
    whole = load_task(config.data, data_dir)
    images, labels = torch.cat([whole.train, whole.test]), torch.cat([whole.train_labels, whole.test_labels])
    train, validation = config.training_samples, config.validation_samples
    if train + validation >= len(labels):
        raise KymographError(
            f"{train:,} and {validation:,} of the {len(labels):,} images of {config.data} leave none to test on; lower "
            "training_samples or validation_samples"
        )
    order = torch.randperm(len(labels), generator=ky.generator(seed, "split"))
    parts = torch.split(order, [train, validation, len(labels) - train - validation])
    divided = dataclasses.replace(
        whole,
        train=images[parts[0]],
        train_labels=labels[parts[0]],
        test=images[parts[2]],
        test_labels=labels[parts[2]],
    )
    batches = Batches(divided, config.batch_size, device)

    def samples(rows: Tensor) -> Samples:
        return Samples(batches.normalise(images[rows].to(device)), labels[rows].to(device))

    few = parts[0][:FITTED]
    return FamilyTask(
        batches, samples(few), samples(parts[1]), samples(parts[2]), whole.classes, whole.shape, whole.digest()
    )


def _sequences(config: RuleFamilyConfig, seed: int, device: str) -> FamilyTask:
    train, validation = config.training_samples, config.validation_samples
    drawn = marked_sums(seed, train + 2 * validation, VALUES, LENGTH)
    x, y = drawn.tokens.to(device), drawn.labels.to(device)
    cuts = [train, validation, validation]
    sets = [Samples(*pair) for pair in zip(torch.split(x, cuts), torch.split(y, cuts), strict=True)]
    digest = hashlib.sha256(drawn.tokens.numpy().tobytes() + drawn.labels.numpy().tobytes()).hexdigest()[:16]
    return FamilyTask(
        SequenceBatches(sets[0], config.batch_size),
        Samples(sets[0].x[:FITTED], sets[0].y[:FITTED]),
        sets[1],
        sets[2],
        VALUES,
        (drawn.vocab, LENGTH),
        digest,
    )


class SequenceBatches:
    """The batches of sequences in memory, in an order determined by seed and epoch."""

    def __init__(self, samples: Samples, batch_size: int) -> None:
        self._samples, self._batch_size = samples, batch_size

    def epoch(self, seed: int, epoch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields the batches of one epoch."""
        x, y = self._samples
        order = torch.randperm(len(y), generator=ky.generator(seed, "order", str(epoch))).to(y.device)
        for rows in torch.split(order, self._batch_size):
            yield x[rows], y[rows]


def family_network(config: RuleFamilyConfig, task: FamilyTask, seed: int) -> BlockNetwork:
    """Returns the network with the initial weights of its seed, which all rules share."""
    draw = ky.generator(seed, "weights")
    if config.network == "transformer":
        vocab, length = task.shape
        with torch.random.fork_rng(devices=[]):  # torch's own initial weights are redrawn below
            net = TokenTransformer(vocab, length, task.classes, config.depth, config.width)
        initialise(net, draw)
        return net
    channels, size, _ = task.shape
    return draw_model(
        config.network.removesuffix(BATCH_NORM),
        channels,
        size,
        task.classes,
        draw,
        depth=config.depth,
        width=config.width,
        batch_norm=config.network.endswith(BATCH_NORM),
    )
