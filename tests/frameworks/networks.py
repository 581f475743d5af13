"""One small network, its data and its optimizer, trained by a plain loop, by Lightning, by transformers' Trainer."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import kymograph as ky

SAMPLES, BATCH, EPOCHS = 48, 4, 2


@dataclass(frozen=True)
class Setup:
    """How the network is trained."""

    accumulate: int = 2
    clip: float = 0.1
    precision: str = "32-true"
    level: str = "standard"
    every: int = 1

    @property
    def steps_per_epoch(self) -> int:
        return SAMPLES // BATCH // self.accumulate

    @property
    def steps(self) -> int:
        return EPOCHS * self.steps_per_epoch

    @property
    def watch(self) -> dict[str, Any]:
        """The options of the probe; ``deep`` has quantities of the whole network, on the first batch."""
        whole = {"loss": fixed_loss, "batch": next(batches())} if self.level == "deep" else {}
        return {"level": self.level, "every": self.every, **whole}

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        kinds = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}
        return torch.autocast("cpu", kinds[self.precision]) if self.precision in kinds else contextlib.nullcontext()


DEFAULT = Setup()
SETUPS = [DEFAULT, Setup(accumulate=1), Setup(precision="bf16-mixed"), Setup(every=4), Setup(level="deep", every=3)]


def body() -> nn.Sequential:
    """The network, with the same weights whenever it is made."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        return nn.Sequential(
            nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3)
        )


def data() -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(SAMPLES, 8, generator=generator)
    return list(zip(x, torch.randint(0, 3, (SAMPLES,), generator=generator), strict=True))


def batches() -> Iterator[tuple[Tensor, Tensor]]:
    """The batches of one epoch, in the order of the data."""
    samples = data()
    for first in range(0, SAMPLES, BATCH):
        x, y = zip(*samples[first : first + BATCH], strict=True)
        yield torch.stack(x), torch.stack(y)


def optimizer_of(network: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(network.parameters(), lr=1e-2)


def scaler(enabled: bool = True) -> torch.amp.GradScaler:
    """A scaler whose scale changes every other step."""
    return torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=2, enabled=enabled)


class Plain(nn.Module):
    """The network under the name that it has in a Lightning module."""

    def __init__(self) -> None:
        super().__init__()
        self.body = body()

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(self.body(x), y)


def plain_loop(out: Path, setup: Setup) -> Plain:
    """Trains the network in a plain loop."""
    network = Plain()
    optimizer = optimizer_of(network)
    with ky.record("agreement", arm="plain", seed=3, out=out) as run:
        scaling = scaler(setup.precision == "16-mixed")
        run.watch(network, optimizer, scaler=scaling, **setup.watch)
        stream = (batch for _ in range(EPOCHS) for batch in batches())
        for _ in run.steps(setup.steps):
            losses = []
            for _ in range(setup.accumulate):
                with setup.autocast():
                    loss = network.loss(*next(stream))
                scaling.scale(loss / setup.accumulate).backward()
                losses.append(loss.detach())
            scaling.unscale_(optimizer)
            nn.utils.clip_grad_norm_(network.parameters(), setup.clip)
            scaling.step(optimizer)
            scaling.update()
            optimizer.zero_grad()
            run.log(loss=torch.stack(losses).mean())
    return network


def fixed_loss(network: Any, batch: tuple[Tensor, Tensor]) -> Tensor:
    return nn.functional.cross_entropy(network.body(batch[0]), batch[1])


def run_of(out: Path, arm: str) -> ky.StoredRun:
    """Returns the one finished run of an arm."""
    (run,) = ky.Store.open(out).select("agreement", arms=[arm]).finished
    return run


def assert_agreement(out: Path, one: str, other: str, tolerance: float = 1e-6, names: set[str] | None = None) -> None:
    """Checks that two arms have the same series at the same steps and sites, with the same values."""
    left, right = run_of(out, one).series, run_of(out, other).series
    compared = names or set(left)
    assert compared <= set(left) and compared <= set(right), set(left) ^ set(right)
    for name in sorted(compared):
        ours, theirs = left[name], right[name]
        assert ours.step.tolist() == theirs.step.tolist(), name
        assert ours.sites == theirs.sites, name
        scale = np.max(np.abs(ours.value), initial=0.0, where=np.isfinite(ours.value))  # a scaler's overflow is inf
        np.testing.assert_allclose(
            theirs.value, ours.value, rtol=tolerance, atol=tolerance * scale, equal_nan=True, err_msg=name
        )


def assert_same_weights(one: nn.Module, other: nn.Module, tolerance: float = 1e-6) -> None:
    for (name, ours), theirs in zip(one.named_parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(theirs.detach(), ours.detach(), rtol=tolerance, atol=tolerance, msg=name)
