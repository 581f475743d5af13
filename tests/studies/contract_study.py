"""A study for the contract of engines; tests copy it, and its helper, to where only the driver sees them."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from contract_helper import learning_rate

from kymograph import Arm, KymographError, RunResult, RunSeries, RunSpec, Study, generator


@dataclass(frozen=True)
class ContractConfig:
    """What a stack does, apart from training."""

    behaviour: str = "work"
    """work, raise, die-once or die. [set by the arm]"""
    steps: int = 20
    """Training steps."""
    seconds: float = 0.0
    """Sleep so long in every stack."""


class Contract(Study[ContractConfig]):
    """Least squares by gradient descent; writes down whenever it trains."""

    name = "contract"
    question = "Does every engine keep the contract?"
    config_type = ContractConfig
    largest_stack = 2

    def arms(self) -> Sequence[Arm]:
        """One arm per behaviour."""
        kinds = ("work", "raise", "die-once", "die")
        return [Arm(kind, kind, {"behaviour": kind}, default=kind == "work") for kind in kinds]

    def stack_key(self, config: ContractConfig) -> tuple:
        """Arms are not mixed."""
        return (config.behaviour,)

    def steps(self, config: ContractConfig) -> int:
        """The steps of a run."""
        return config.steps

    def prepare(self, specs: Sequence[RunSpec[ContractConfig]], data_dir: Path | None) -> None:
        """The data are one file, if a directory is given."""
        if data_dir is not None and not (data_dir / "data.txt").is_file():
            raise KymographError(f"there is no data.txt in {data_dir}; fetch it first")

    def train(self, specs: Sequence[RunSpec[ContractConfig]], work: Any) -> list[RunResult]:
        """Trains each run of the stack in turn."""
        notes = Path(os.environ["KYMOGRAPH_TEST_NOTES"])
        mark = notes.with_name(f"died-{min(spec.seed for spec in specs)}")
        with notes.open("a") as file:
            file.write("".join(f"{spec.arm} {spec.seed}\n" for spec in specs))
        behaviour = specs[0].config.behaviour
        if behaviour == "die" or (behaviour == "die-once" and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "raise":
            raise RuntimeError("it is broken")
        time.sleep(specs[0].config.seconds)
        return [self.fit(spec, work) for spec in specs]

    def fit(self, spec: RunSpec[ContractConfig], work: Any) -> RunResult:
        """One run."""
        draw = generator(spec.seed, "data")
        x, y = torch.randn(64, 32, generator=draw), torch.randn(64, generator=draw)
        weight = torch.zeros(32, requires_grad=True)
        losses = []
        for _ in range(spec.config.steps):
            loss = (x @ weight - y).square().mean()
            (gradient,) = torch.autograd.grad(loss, weight)
            weight = (weight - learning_rate(spec.seed) * gradient).detach().requires_grad_()
            losses.append(loss.item())
            work.tick(1)
        steps = torch.arange(len(losses)).numpy()
        return RunResult({"loss": RunSeries(steps, torch.tensor(losses).numpy())}, {"loss": losses[-1]})
