"""Whether a probe measures the same in every mode of training: compiled, in half precision, accumulating, checkpointed.

A small network with every kind of layer is trained for a few steps in each mode, and once eagerly: in float32, on whole
batches, with a plain optimizer. At every step and layer each quantity must equal the eager one, within 1e-5 or the
precision of the mode's number format, or be NaN with a note of the probe that names the quantity. Nothing else is
allowed.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

import kymograph as ky
from kymograph._errors import first_line
from kymograph._probes.fixed_batch import TOLERANCE
from kymograph.quantities import QUANTITIES

STEPS, SAMPLES, CLASSES, WIDTH = 3, 16, 5, 8
LIMIT = 1e-5
SCALE = 2.0**10
"""At which no gradient of this network overflows in float16."""
Batch = tuple[Tensor, Tensor]
Series = Mapping[str, ky.RunSeries]


class Block(nn.Module):
    """Attention and a two-layer perceptron, each behind a LayerNorm and added to the stream."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16), activation, nn.Linear(16, WIDTH))
        nn.init.normal_(self.mlp[1].weight)  # so that some entries of a tanh saturate

    def forward(self, x: Tensor) -> Tensor:
        """Returns the stream after this block, (batch, tokens, width)."""
        h = self.norm(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.mlp(x)


class Network(nn.Module):
    """A small vision Transformer: a convolution cuts images of 8 x 8 into 16 tokens, for blocks with ReLU and tanh.

    Of the channels after the convolution one is dead, and another fires for so few samples that it is dead in some
    micro-batches. With ``reentrant`` the blocks are checkpointed, in this way.
    """

    def __init__(self, reentrant: bool | None = None) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.patches, self.relu = nn.Conv2d(3, WIDTH, 2, 2), nn.ReLU()
        with torch.no_grad():
            self.patches.bias[:2] = -torch.tensor([9.0, 1.6])
        self.blocks = nn.ModuleList([Block(nn.ReLU()), Block(nn.Tanh())])
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        """Returns logits, (batch, classes)."""
        x = self.relu(self.patches(images)).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x) if self.reentrant is None else checkpoint(block, x, use_reentrant=self.reentrant)
        logits: Tensor = self.head(x.mean(1))
        return logits


PRODUCTS = {nn.Linear: 1, nn.Conv2d: 1, nn.MultiheadAttention: 4}
"""How many products of matrices a layer computes one after the other, each rounded to the format of autocast."""


@dataclass(frozen=True)
class Mode:
    """A way of training, and how to tell it from the eager one."""

    about: str
    optimizer: str = "SGD"
    settings: Mapping[str, Any] | None = None
    """Of the optimizer: ``foreach`` or ``fused``."""
    autocast: torch.dtype | None = None
    scaled: bool = False
    micro_batches: int = 1
    reentrant: bool | None = None
    backend: str | None = None
    watches_inside: bool = False
    """The probe is given the module inside the compiled one."""
    clips: bool = True

    @property
    def eager(self) -> Mode:
        """The mode that this one is compared with."""
        return Mode("eager", self.optimizer, clips=self.clips)

    def limit(self) -> float:
        """Returns the largest relative difference from eager training that the format of the numbers explains.

        A value has passed every product of matrices in the forward and in the backward pass, and been rounded after
        each, which changes the norm of the result by at most half of the format's epsilon.
        """
        if self.autocast is None:
            return LIMIT
        products = sum(PRODUCTS.get(type(layer), 0) for layer in Network().modules())
        return 2 * products * torch.finfo(self.autocast).eps / 2


def _modes() -> Iterator[tuple[str, Mode]]:
    for backend in ("aot_eager", "inductor"):
        yield backend, Mode(f"`torch.compile` with backend {backend}", backend=backend)
    yield (
        "inside",
        Mode("the module inside a compiled one (backend aot_eager)", backend="aot_eager", watches_inside=True),
    )
    yield "bf16", Mode("autocast to bfloat16", autocast=torch.bfloat16)
    yield "fp16", Mode("autocast to float16, with a `GradScaler`", autocast=torch.float16, scaled=True)
    yield "scaler", Mode("float32 with a `GradScaler`", scaled=True)
    yield "scaler-fused", Mode("`GradScaler`, fused SGD", settings={"fused": True}, scaled=True, clips=False)
    yield "micro-batches", Mode("gradients accumulated over four micro-batches", micro_batches=4)
    yield "checkpoint", Mode("activation checkpointing", reentrant=False)
    yield "reentrant", Mode("reentrant activation checkpointing", reentrant=True)
    for name in ("SGD", "Adam", "AdamW"):
        for kind in ("foreach", "fused"):
            yield f"{name}-{kind}", Mode(f"{kind} {name}", name, {kind: True})


MODES = dict(_modes())


def loss_of(net: nn.Module, batch: Batch) -> Tensor:
    """Returns the mean cross-entropy on a batch of images and labels."""
    return cross_entropy(net(batch[0]), batch[1])


def train(mode: Mode, names: Sequence[str]) -> ky.Probe:
    """Trains the network in a mode and returns the probe that has read the quantities called ``names``."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        inside = net = Network(mode.reentrant)
        batch = torch.randn(SAMPLES, 3, 8, 8), torch.randint(0, CLASSES, (SAMPLES,))
    if mode.backend:
        torch._dynamo.reset()
        net = torch.compile(inside, backend=mode.backend)  # type: ignore[assignment]
    settings = {"lr": 0.01, "momentum": 0.9} if mode.optimizer == "SGD" else {"lr": 0.001}
    settings |= dict(mode.settings or {"foreach": False, "fused": False})
    optimizer = getattr(torch.optim, mode.optimizer)(net.parameters(), **settings)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE, growth_interval=2, enabled=mode.scaled)
    cast = nullcontext if mode.autocast is None else functools.partial(torch.autocast, "cpu", mode.autocast)
    watched = inside if mode.watches_inside else net
    with ky.Probe(watched, optimizer, names, every=1, loss=loss_of, batch=batch, scaler=scaler) as probe:
        for step in range(STEPS):
            with probe.step(step):
                optimizer.zero_grad()
                for part in zip(*(tensor.chunk(mode.micro_batches) for tensor in batch), strict=True):
                    with cast():
                        loss = loss_of(net, part) / mode.micro_batches
                    scaler.scale(loss).backward()
                if mode.clips:
                    scaler.unscale_(optimizer)
                    nn.utils.clip_grad_norm_(net.parameters(), 0.1)
                scaler.step(optimizer)
                scaler.update()
    return probe


@dataclass(frozen=True)
class Cell:
    """What a mode makes of a quantity: the largest relative difference from eager training, NaN and why, or a fault."""

    difference: float = 0.0
    note: str = ""
    fault: str = ""


def compare(name: str, mode: Mode, measured: ky.RunSeries | None, eager: ky.RunSeries, notes: Sequence[str]) -> Cell:
    """Returns what a mode made of a quantity, given its eager values and the notes of the mode's probe."""
    if measured is None or measured.sites != eager.sites or measured.value.shape != eager.value.shape:
        return Cell(fault="its layers or steps are not those of eager training")
    here, there = measured.value, eager.value
    missing, added = np.isnan(here) & ~np.isnan(there), np.isnan(there) & ~np.isnan(here)
    if added.any():
        return Cell(fault="it has a value where eager training has none")
    note = next((note for note in notes if name in note.replace(",", " ").split()), "")
    if missing.any() and not note:
        return Cell(fault="it is NaN, and no note says why")
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = np.where(here == there, 0.0, np.abs(here - there) / np.abs(there))
    limit = mode.limit() * (2 if name == "weight_gradient_dot" else 1)  # a product has the errors of both factors
    if name in ("sharpness", "sharpness_residual"):  # the iteration stops when its relative residual is below this
        limit = max(limit, TOLERANCE)
        apart = np.abs(here - there) if name == "sharpness_residual" else apart
    difference = float(np.nanmax(apart, initial=0.0))
    fault = f"it differs by {difference:.1e}, and {limit:.1e} is allowed" if difference > limit else ""
    return Cell(difference, note if missing.any() else "", fault)


def matrix(modes: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, Cell]]:
    """Returns by mode what it makes of each of the quantities called ``names``; without a mode that cannot be run."""
    eager: dict[Mode, Series] = {}
    cells: dict[str, dict[str, Cell]] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the network is tiny
    try:
        for key in modes:
            mode = MODES[key]
            if mode.eager not in eager:
                eager[mode.eager] = train(mode.eager, names).series()
            try:
                probe = train(mode, names)
            except torch._dynamo.exc.BackendCompilerFailed as error:  # inductor needs a C++ compiler
                print(f"{key} is left out: {first_line(error)}", file=sys.stderr)
                continue
            series, reference = probe.series(), eager[mode.eager]
            cells[key] = {name: compare(name, mode, series.get(name), reference[name], probe.notes) for name in names}
    finally:
        torch.set_num_threads(threads)
    return cells


def quantities() -> list[str]:
    """Returns the names of all quantities, in the order in which they are listed."""
    return [name.replace("-", "_") for name in QUANTITIES.parts()]


def render(cells: Mapping[str, Mapping[str, Cell]]) -> str:
    """Returns the matrix as a Markdown table, a column per mode, with its modes and the notes on NaN below it."""
    notes: dict[str, None] = {}
    names = list(next(iter(cells.values())))
    lines = [f"| | {' | '.join(map(str, range(1, len(cells) + 1)))} |", "|---" * (len(cells) + 1) + "|"]
    for name in names:
        marks = []
        for key, column in cells.items():
            cell = column[name]
            if cell.note:
                notes[f"{MODES[key].about}: {cell.note}"] = None
            equal = "=" if cell.difference <= LIMIT else "≈"
            marks.append("**wrong**" if cell.fault else "NaN" if cell.note else equal)
        lines.append(f"| `{name}` | {' | '.join(marks)} |")
    lines += [
        "",
        "=: equal to eager training within 1e-5; ≈: within the precision of the mode's format, or of the iteration "
        f"that finds the sharpness ({TOLERANCE:g}); NaN: not measured, as a note of the probe says.",
        "",
    ]
    for number, key in enumerate(cells, start=1):
        limit = MODES[key].limit()
        precision = "" if limit == LIMIT else f"; differences up to {limit:.2g} are due to its precision"
        lines.append(f"{number}. {MODES[key].about}{precision}")
    return "\n".join([*lines, "", "Notes of the probe:", "", *(f"- {note}" for note in notes)])


def bench_modes() -> int:
    """Prints the whole matrix; returns 1 if a cell is neither equal to eager training nor NaN with a note."""
    cells = matrix(list(MODES), quantities())
    print(render(cells))
    faults = [
        f"{MODES[key].about}, {name}: {cell.fault}"
        for key, column in cells.items()
        for name, cell in column.items()
        if cell.fault
    ]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0
