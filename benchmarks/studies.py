"""The studies' rows: each piece of work the script's way and ours, and the time of its matrix products alone."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks import naive
from benchmarks.compare import Comparison
from kymograph._errors import KymographError
from kymograph_studies.analysis.calibration import calibrate
from kymograph_studies.data.images import MEAN, STD, Batches, ImageTask
from kymograph_studies.models.blocks import BlockNetwork, initialise
from kymograph_studies.models.feedforward import ResidualMLP
from kymograph_studies.models.flat import FlatNetwork
from kymograph_studies.rules.feedback import draw_feedback
from kymograph_studies.snapshot import SnapshotConfig
from kymograph_studies.training.image_training import draw_network, make_optimizer, make_rule
from kymograph_studies.training.loop import ClipParts, Update, train

IMAGES, BATCH, WIDTH, DEPTH, CLASSES = 50_000, 128, 256, 4, 10
CALIBRATION_IMAGES, SCRIPT_DRAWS, FEW_DRAWS, OUR_DRAWS = 2048, 5, 19, 999
MOST_MEMORY = 1.5
"""GB that a process may use at its peak while it trains an epoch of images."""


def comparisons() -> dict[str, Comparison]:
    """Returns every row by name, with its limits."""
    seed, epoch = "s per seed", "s per epoch"
    arms = ("--arms", "plain", "residual")
    loaded = [sys.executable, "-c", "from benchmarks import naive; naive.depth_seed(42)"]
    return {
        "clipping-32": Comparison(
            "`clipping`, whole study, 32 seeds; start-up counted for ours only",
            seed,
            lambda: _timed(lambda: naive.clipping_seed(42)),
            lambda: _command("clipping", 32),
            faster=100,
        ),
        "clipping-1": Comparison(
            "`clipping`, whole study, 1 seed; start-up counted for ours only",
            seed,
            lambda: _timed(lambda: naive.clipping_seed(42)),
            lambda: _command("clipping", 1),
            faster=5,
        ),
        "depth-10": Comparison(
            "`depth`, both script arms, 10 seeds; whole commands, the script's being one process per seed",
            seed,
            lambda: _timed(lambda: subprocess.run(loaded, check=True)),
            lambda: _command("depth", 10, *arms),
            faster=10,
        ),
        "depth-10-warm": Comparison(
            "the same against a script that is loaded and warm; start-up counted for ours only",
            seed,
            _script_depth,
            lambda: _command("depth", 10, *arms),
        ),
        "snapshot-data": Comparison(
            "`snapshot`, batches of CIFAR-10's size, no training", epoch, script_pipeline, our_pipeline, most=0.6
        ),
        "snapshot-bp": _epoch("bp", faster=4, most_products=1.5),
        "snapshot-dfa": _epoch("dfa", faster=5, most_products=1.3),
        "snapshot-bp-sweep": _epoch_in_a_sweep("bp"),
        "snapshot-dfa-sweep": _epoch_in_a_sweep("dfa"),
        "calibration": Comparison(
            "`calibration`, one fresh-B draw on 2,048 images; the script recomputes the gradients, ours are stored",
            "s per draw",
            script_draw,
            our_draw,
            faster=100,
        ),
        "calibration-999": Comparison(
            "the same, 999 draws as a whole: gradients and their float64 recheck counted; the script's time is 999 "
            "times one draw",
            "s",
            lambda: 999 * script_draw(),
            calibration,
            most=3.0,
        ),
    }


def _epoch(rule: str, faster: float, most_products: float) -> Comparison:
    return Comparison(
        f"`snapshot`, {rule.upper()}",
        "s per epoch",
        lambda: script_epoch(rule),
        lambda: our_epoch(rule),
        faster=faster,
        products=lambda: products(rule),
        most_products=most_products,
    )


def _epoch_in_a_sweep(rule: str) -> Comparison:
    return Comparison(
        f"{rule.upper()} in a sweep: a run on every core, each on one thread; "
        "the script trains one run after the other",
        "s per epoch",
        lambda: script_epoch(rule),
        lambda: sweep_epoch(rule),
    )


def _timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _command(study: str, seeds: int, *options: str) -> float:
    """Returns the seconds per seed of a whole command on the CPU, in a fresh process and a fresh directory."""
    with tempfile.TemporaryDirectory() as directory:
        words = [study, "--n-seeds", str(seeds), "--dir", directory, "--quiet", *options]
        command = [sys.executable, "-m", "kymograph", "run", *words, "--device", "cpu"]  # where the scripts train
        return _timed(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL)) / seeds


def _script_depth() -> float:
    naive.depth_seed(42, steps=5)
    return _timed(lambda: naive.depth_seed(42))


# An epoch of images of CIFAR-10's size.


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
    draw = torch.Generator().manual_seed(0)
    net = draw_network(config, images(), draw)
    flat = FlatNetwork(net)
    update = Update(make_optimizer(config, flat), [ClipParts(flat.block_spans, 1.0)] if config.clip else [])
    method = make_rule(config, net, batches, draw)
    return _timed(lambda: sum(1 for _ in train(batches.epoch(0, 0), method, update)))


def sweep_epoch(rule: str) -> float:
    """Returns the seconds per epoch in a sweep, with a run on every core, each on one thread; start-up not counted."""
    code = (
        "from benchmarks import studies as s; s._batches(); print(flush=True); input(); "
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
    code = f"from benchmarks import studies as s; s.our_epoch({rule!r}); print(s.peak())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return float(done.stdout)


def peak() -> float:
    """Returns this process's peak memory in GB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e9


# A draw of the fresh-B null, on a network of the published size.


@functools.cache
def network() -> tuple[BlockNetwork, Tensor, Tensor]:
    """Returns a network, images and labels; the time does not depend on their values."""
    draw = torch.Generator().manual_seed(0)
    net = ResidualMLP(3, 32, CLASSES, DEPTH, WIDTH)
    initialise(net, draw)
    return (
        net,
        torch.randn(CALIBRATION_IMAGES, 3072, generator=draw),
        torch.randint(0, CLASSES, (CALIBRATION_IMAGES,), generator=draw),
    )


def script_draw() -> float:
    """Returns the seconds of a draw the script's way: the gradients again, then a cosine per layer."""
    net, x, y = network()
    started = time.perf_counter()
    for number in range(SCRIPT_DRAWS):
        feedback = draw_feedback(torch.Generator().manual_seed(number), [WIDTH] * DEPTH, CLASSES)
        _, points = net.walk(net.embed(x).detach().requires_grad_())
        logits = net.readout(points[-1])
        gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, y), points)
        with torch.no_grad():
            error = logits.softmax(-1)
            error[torch.arange(len(y)), y] -= 1
            for point, gradient in enumerate(gradients):
                credit = error @ feedback[min(point, DEPTH - 1)].T
                product = (credit * gradient).sum(-1)
                (product / (credit.norm(dim=-1) * gradient.norm(dim=-1)).clamp(min=1e-30)).mean().item()
    return (time.perf_counter() - started) / SCRIPT_DRAWS


def our_draw() -> float:
    """Returns the seconds of one more draw our way: the time that draws 20 to 999 add to a calibration, per draw."""
    return (calibration(OUR_DRAWS) - calibration(FEW_DRAWS)) / (OUR_DRAWS - FEW_DRAWS)


def calibration(draws: int = OUR_DRAWS) -> float:
    """Returns the seconds of a whole calibration against fresh matrices, gradients and float64 recheck included."""
    net, x, y = network()
    feedback = draw_feedback(torch.Generator().manual_seed(0), [WIDTH] * DEPTH, CLASSES)
    started = time.perf_counter()
    calibrate(net, feedback, x, y, draws, nulls=("fresh",))
    return time.perf_counter() - started
