"""One epoch of CIFAR-10's size, the script's way and ours, and the time of its matrix products alone."""

from __future__ import annotations

import functools
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kymograph.data.batches import Batches
from kymograph.data.cifar10 import MEAN, STD
from kymograph.data.images import ImageTask
from kymograph.models.blocks import FlatNetwork
from kymograph.models.resmlp import ResidualMLP
from kymograph.studies.snapshot import SnapshotConfig
from kymograph.studies.snapshot.train import make_feedback, make_network, make_optimizer, make_rule
from kymograph.training.loop import train
from kymograph.training.updates import ClipParts, Update

IMAGES, BATCH, WIDTH, DEPTH, CLASSES = 50_000, 128, 256, 4, 10


@functools.cache
def images() -> ImageTask:
    """Returns random images of CIFAR-10's number and shape: the time does not depend on what they show."""
    draw = np.random.default_rng(0)

    def some(n: int) -> tuple[Tensor, Tensor]:
        pixels = draw.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
        return torch.from_numpy(pixels), torch.from_numpy(draw.integers(0, 10, n))

    train_images, labels = some(IMAGES)
    test_images, test_labels = some(1000)
    return ImageTask("random", train_images, labels, test_images, test_labels, MEAN, STD, CLASSES, augment=True)


class PictureFiles(torch.utils.data.Dataset):
    """The script's data set: pictures that are padded, cropped, flipped and normalised one by one.

    Operation for operation what the usual library of PIL transforms does, checks and copies included; it takes as long.
    """

    def __init__(self, task: ImageTask) -> None:
        self.pixels, self.labels = task.train.permute(0, 2, 3, 1).contiguous().numpy(), task.train_labels.tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image, ImageOps

        # pad and crop
        picture = ImageOps.expand(Image.fromarray(self.pixels[index]), border=(4, 4, 4, 4), fill=0)
        top = int(torch.randint(0, picture.height - 32 + 1, size=(1,)).item())
        left = int(torch.randint(0, picture.width - 32 + 1, size=(1,)).item())
        picture = picture.crop((left, top, left + 32, top + 32))
        # flip
        if torch.rand(1) < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        # to a tensor
        tensor = torch.from_numpy(np.array(picture, np.uint8, copy=True))
        tensor = tensor.view(picture.height, picture.width, len(picture.getbands())).permute((2, 0, 1)).contiguous()
        tensor = tensor.to(dtype=torch.get_default_dtype()).div(255)
        # normalise
        tensor = tensor.clone()
        mean = torch.as_tensor(MEAN, dtype=tensor.dtype, device=tensor.device)
        std = torch.as_tensor(STD, dtype=tensor.dtype, device=tensor.device)
        if (std == 0).any():
            raise ValueError("a standard deviation is zero")
        return tensor.sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1)), self.labels[index]


def script_batches() -> Iterator[tuple[Tensor, Tensor]]:
    """Yields an epoch the script's way: a loader with two worker processes."""
    loader = torch.utils.data.DataLoader(PictureFiles(images()), batch_size=BATCH, shuffle=True, num_workers=2)
    for x, y in loader:
        yield x.view(len(x), -1), y


def script_pipeline() -> float:
    """Returns the seconds of an epoch of the script's batches, without training."""
    return _timed(lambda: sum(1 for _ in script_batches()))


def our_pipeline() -> float:
    """Returns the seconds of an epoch of our batches, without training."""
    batches = _batches()
    return _timed(lambda: sum(1 for _ in batches.epoch(0, 0)))


def script_epoch(rule: str) -> float:
    """Returns the seconds of an epoch the script's way; DFA passes every block a second time and steps each alone."""
    net = ResidualMLP(3072, CLASSES, DEPTH, WIDTH)
    return _timed(lambda: _script_bp(net) if rule == "bp" else _script_dfa(net))


def _script_bp(net: ResidualMLP) -> None:
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    for x, y in script_batches():
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def _script_dfa(net: ResidualMLP) -> None:
    feedback = [torch.randn(WIDTH, CLASSES) / CLASSES**0.5 for _ in range(DEPTH)]

    def adamw(*modules: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.AdamW([p for m in modules for p in m.parameters()], lr=1e-3, weight_decay=0.01)

    blocks = list(net.blocks)
    optimizers, embed, head = [adamw(block) for block in blocks], adamw(net.embed), adamw(net.norm, net.head)

    def step(optimizer: torch.optim.Optimizer, loss: Tensor, clipped: nn.Module | None = None) -> None:
        optimizer.zero_grad()
        loss.backward()
        if clipped is not None:
            nn.utils.clip_grad_norm_(clipped.parameters(), 1.0)
        optimizer.step()

    for x, y in script_batches():
        with torch.no_grad():
            points = net.stream(x)
            error = net.readout(points[-1]).softmax(-1)
            error[torch.arange(len(y)), y] -= 1
        step(head, nn.functional.cross_entropy(net.readout(points[-1]), y))
        for block, optimizer, point, matrix in zip(blocks, optimizers, points[:-1], feedback, strict=True):
            credit = error @ matrix.T
            credit = credit / ((credit**2).mean(-1, keepdim=True).sqrt() + 1e-6)
            step(optimizer, (block(point) * credit).sum(-1).mean(), block)
        credit = error @ feedback[0].T
        credit = credit / ((credit**2).mean(-1, keepdim=True).sqrt() + 1e-6)
        step(embed, (net.embed(x) * credit).sum(-1).mean())


@functools.cache
def _batches() -> Batches:
    return Batches(images(), BATCH)


def our_epoch(rule: str) -> float:
    """Returns the seconds of an epoch our way."""
    config = SnapshotConfig(data="cifar10", epochs=1, rule=rule, rms=rule == "dfa", clip=rule == "dfa")  # type: ignore[arg-type]
    batches = _batches()
    net = make_network(config, images(), 0)
    flat = FlatNetwork(net)
    spans = [span for name, span in flat.spans.items() if name.startswith("blocks.")]
    update = Update(make_optimizer(config, flat), [ClipParts(spans, 1.0)] if config.clip else [])
    method = make_rule(config, make_feedback(config, net, batches, 0))
    return _timed(lambda: sum(1 for _ in train(flat, batches.epoch(0, 0), method, update)))


def products(rule: str) -> float:
    """Returns the seconds of the matrix products alone of an epoch: every one that the rule needs, and nothing else."""
    sizes = [(BATCH, 3072, WIDTH), (WIDTH, BATCH, 3072)]  # embed: forward, weights
    for _ in range(DEPTH):
        # Two forward, two backward: the first layer's is needed under DFA too, for the LayerNorm before it is trained.
        sizes += [(BATCH, WIDTH, WIDTH)] * 4
        sizes += [(WIDTH, BATCH, WIDTH)] * 2  # weights
    sizes += [(BATCH, WIDTH, CLASSES), (CLASSES, BATCH, WIDTH), (BATCH, CLASSES, WIDTH)]  # head
    if rule == "dfa":
        sizes += [(BATCH, CLASSES, WIDTH)] * (DEPTH + 1)  # credit
    pairs = [(torch.randn(m, k), torch.randn(k, n), torch.empty(m, n)) for m, k, n in sizes]

    def epoch() -> None:
        for _ in range(-(-IMAGES // BATCH)):
            for a, b, out in pairs:
                torch.mm(a, b, out=out)

    return _timed(epoch)


def peak_memory(rule: str) -> float:
    """Returns the peak memory, in GB, of a fresh process that trains an epoch our way."""
    code = f"from kymograph.bench import snapshot as s; s.our_epoch({rule!r}); print(s.peak())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def peak() -> float:
    """Returns this process's peak memory in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


def _timed(work: Any) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started
