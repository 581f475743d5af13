"""One epoch of CIFAR-10's size, the script's way and ours, and the time of its matrix products alone."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from kymograph.errors import KymographError
from kymograph_studies.data.images import MEAN, STD, Batches, ImageTask
from kymograph_studies.models.feedforward import ResidualMLP
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.script_randomness import script_generator
from kymograph_studies.snapshot import SnapshotConfig
from kymograph_studies.training.image_training import draw_network, make_optimizer, make_rule
from kymograph_studies.training.loop import ClipParts, Update, train

IMAGES, BATCH, WIDTH, DEPTH, CLASSES = 50_000, 128, 256, 4, 10


@functools.cache
def images() -> ImageTask:
    """Returns random images, as many and of the same shape as CIFAR-10's; the time does not depend on their content."""
    draw = np.random.default_rng(0)

    def some(n: int) -> tuple[Tensor, Tensor]:
        pixels = draw.integers(0, 256, (n, 3, 32, 32), dtype=np.uint8)
        return torch.from_numpy(pixels), torch.from_numpy(draw.integers(0, 10, n))

    train_images, labels = some(IMAGES)
    test_images, test_labels = some(1000)
    return ImageTask("random", train_images, labels, test_images, test_labels, MEAN, STD, CLASSES, augment=True)


class ScriptDataset(torch.utils.data.Dataset):
    """The script's data set: images that are padded, cropped, flipped and normalised one by one.

    Reproduces the usual library of PIL transforms, which is not a dependency, with its modules, checks and copies.
    """

    def __init__(self, task: ImageTask) -> None:
        self.pixels, self.labels = task.train.permute(0, 2, 3, 1).contiguous().numpy(), task.train_labels.tolist()
        self.transforms = (_RandomCrop(), _RandomFlip(), _to_tensor, _Normalise())

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        from PIL import Image

        item: Any = Image.fromarray(self.pixels[index])
        for transform in self.transforms:
            item = transform(item)
        return item, self.labels[index]


def _log_use(name: str) -> None:
    """Reproduces the start of each function of that library: checks for scripting and tracing, and logs the use."""
    if not torch.jit.is_scripting() and not torch.jit.is_tracing():
        torch._C._log_api_usage_once(f"benchmarks.{name}")


def _dimensions(picture: Any) -> tuple[int, int, int]:
    _log_use("dimensions")
    if isinstance(picture, Tensor):
        raise TypeError("expected an image, not a tensor")
    width, height = picture.size
    return len(picture.getbands()), height, width


class _RandomCrop(nn.Module):
    def forward(self, picture: Any) -> Any:
        """Pads by four pixels and takes a random crop of 32 x 32."""
        from PIL import ImageOps

        _log_use("pad")
        fill = tuple(int(value) for value in (0,) * len(picture.getbands()))
        picture = ImageOps.expand(picture, border=4, fill=fill)
        _dimensions(picture)
        _, height, width = _dimensions(picture)
        if height < 32 or width < 32:
            raise ValueError("the image is too small")
        top = int(torch.randint(0, height - 32 + 1, size=(1,)).item())
        left = int(torch.randint(0, width - 32 + 1, size=(1,)).item())
        _log_use("crop")
        return picture.crop((left, top, left + 32, top + 32))


class _RandomFlip(nn.Module):
    def forward(self, picture: Any) -> Any:
        """Flips an image with probability one half."""
        from PIL import Image

        if torch.rand(1) < 0.5:
            _log_use("flip")
            return picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        return picture


def _to_tensor(picture: Any) -> Tensor:
    _log_use("to_tensor")
    kinds = {"I": np.int32, "I;16": np.int16, "F": np.float32}
    tensor = torch.from_numpy(np.array(picture, kinds.get(picture.mode, np.uint8), copy=True))
    tensor = tensor.view(picture.size[1], picture.size[0], len(picture.getbands())).permute((2, 0, 1)).contiguous()
    if isinstance(tensor, torch.ByteTensor):
        return tensor.to(dtype=torch.get_default_dtype()).div(255)
    return tensor


class _Normalise(nn.Module):
    def forward(self, tensor: Tensor) -> Tensor:
        """Subtracts the mean and divides by the standard deviation, on a copy."""
        _log_use("normalize")
        if not tensor.is_floating_point() or tensor.ndim < 3:
            raise TypeError("expected a float image")
        tensor = tensor.clone()
        mean = torch.as_tensor(MEAN, dtype=tensor.dtype, device=tensor.device)
        std = torch.as_tensor(STD, dtype=tensor.dtype, device=tensor.device)
        if (std == 0).any():
            raise ValueError("a standard deviation is zero")
        return tensor.sub_(mean.view(-1, 1, 1)).div_(std.view(-1, 1, 1))


def script_batches() -> Iterator[tuple[Tensor, Tensor]]:
    """Yields an epoch the script's way: a loader with two worker processes."""
    loader = torch.utils.data.DataLoader(ScriptDataset(images()), batch_size=BATCH, shuffle=True, num_workers=2)
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
    """Returns the seconds of an epoch the script's way; DFA runs every block twice and steps each alone."""
    net = ResidualMLP(3, 32, CLASSES, DEPTH, WIDTH)
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
    config = SnapshotConfig(data="cifar10", epochs=1, rule=rule, rms=rule == "dfa", clip=rule == "dfa")
    batches = _batches()
    draw = script_generator(0)
    net = draw_network(config, images(), draw)
    flat = FlatNetwork(net)
    update = Update(make_optimizer(config, flat), [ClipParts(flat.block_spans, 1.0)] if config.clip else [])
    method = make_rule(config, net, batches, draw)
    return _timed(lambda: sum(1 for _ in train(batches.epoch(0, 0), method, update)))


def sweep_epoch(rule: str) -> float:
    """Returns the seconds per epoch in a sweep, with a run on every core, each on one thread; start-up not counted."""
    code = (
        "from benchmarks import epochs as s; s._batches(); print(flush=True); input(); "
        f"s.our_epoch({rule!r}); print(flush=True)"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    cores = os.cpu_count() or 1
    with ExitStack() as open_processes:
        processes = [
            open_processes.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", code],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    env=environment,
                )
            )
            for _ in range(cores)
        ]
        _wait_for_line(processes)  # all are ready
        started = time.perf_counter()
        for process in processes:
            print(file=process.stdin, flush=True)
        _wait_for_line(processes)  # all are done
        return (time.perf_counter() - started) / cores


def _wait_for_line(processes: Sequence[subprocess.Popen[str]]) -> None:
    for process in processes:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise KymographError("a process of the comparison stopped; run it again when the machine is less busy")


def products(rule: str) -> float:
    """Returns the seconds of an epoch's matrix products alone, for the rule as it is written down.

    For DFA, that includes multiplying out the credit; our implementation keeps it as factors and needs about half as
    many products.
    """
    sizes = [(BATCH, 3072, WIDTH), (WIDTH, BATCH, 3072)]  # embed: forward, weights
    for _ in range(DEPTH):
        # Two forward, two backward: DFA needs the first layer's too, because the LayerNorm before it is trained.
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
    code = f"from benchmarks import epochs as s; s.our_epoch({rule!r}); print(s.peak())"
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
