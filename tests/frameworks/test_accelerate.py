"""A loop with Accelerate needs no callback: what it has prepared is watched as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import kymograph as ky
from tests.frameworks import networks
from tests.frameworks.networks import (
    BATCH,
    EPOCHS,
    SETUPS,
    Plain,
    Setup,
    assert_agreement,
    assert_same_weights,
    plain_loop,
    run_of,
)

accelerate = pytest.importorskip("accelerate", reason="Accelerate is not installed: pip install accelerate")
pytestmark = [pytest.mark.frameworks, pytest.mark.filterwarnings("ignore::Warning:accelerate.*")]


@pytest.fixture(autouse=True)
def own_state() -> Iterator[None]:
    """Accelerate keeps its settings for the whole process."""
    yield
    accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)
    accelerate.state.GradientState._reset_state()


class Network(Plain):
    def forward(self, x: torch.Tensor) -> Any:
        return self.body(x)


def loader() -> torch.utils.data.DataLoader[Any]:
    return torch.utils.data.DataLoader(networks.data(), batch_size=BATCH)  # type: ignore[arg-type]


def train(
    out: Path, setup: Setup, checkpoints: Path | None = None, fails_at: int | None = None, resume: int = 0
) -> nn.Module:
    """Trains as Accelerate's pages show it; saves after four steps and after an epoch, and may resume from either."""
    precision = {"32-true": "no", "bf16-mixed": "bf16"}[setup.precision]
    accelerator = accelerate.Accelerator(
        cpu=True, gradient_accumulation_steps=setup.accumulate, mixed_precision=precision
    )
    network = Network()
    optimizer = networks.optimizer_of(network)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    network, optimizer, batches, scheduler = accelerator.prepare(network, optimizer, loader(), constant)
    with ky.record("agreement", arm="accelerate", seed=3, out=out) as run:
        run.watch(network, optimizer, **setup.watch)
        accelerator.register_for_checkpointing(run)
        if resume:
            accelerator.load_state(str(checkpoints / f"{resume}"))
            assert run.step == resume
        for epoch in range(run.step // setup.steps_per_epoch, EPOCHS):
            skipped = (run.step - epoch * setup.steps_per_epoch) * setup.accumulate
            losses = []
            for x, y in run.steps(accelerator.skip_first_batches(batches, skipped) if skipped else batches):
                if run.step == fails_at:
                    raise RuntimeError("out of paper")
                with accelerator.accumulate(network):
                    loss = nn.functional.cross_entropy(network(x), y)
                    accelerator.backward(loss)
                    if accelerator.sync_gradients:
                        accelerator.clip_grad_norm_(network.parameters(), setup.clip)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
                losses.append(loss.detach())
                if accelerator.sync_gradients:
                    run.log(loss=torch.stack(losses).mean())
                    losses = []
                    if checkpoints is not None and run.step == 3:  # in the loop, in the middle of the first epoch
                        accelerator.save_state(str(checkpoints / "4"))
            if checkpoints is not None and not resume:
                accelerator.save_state(str(checkpoints / f"{run.step}"))
    return accelerator.unwrap_model(network)


@pytest.mark.parametrize("setup", SETUPS)
def test_the_plain_loop_and_accelerate_agree(setup: Setup, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    plain = plain_loop(out, setup)
    assert_same_weights(plain, train(out, setup))
    assert_agreement(out, "plain", "accelerate")


@pytest.mark.parametrize("resume", [4, 6])
def test_a_resumed_training_has_the_record_of_an_uninterrupted_one(resume: int, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    plain = plain_loop(out, Setup())
    with pytest.raises(RuntimeError, match="out of paper"):
        train(out, Setup(), tmp_path / "checkpoints", fails_at=8)
    assert_same_weights(plain, train(out, Setup(), tmp_path / "checkpoints", resume=resume))
    assert_agreement(out, "plain", "accelerate")
    assert f"resumed at step {resume} from a checkpoint" in run_of(out, "accelerate").notes


def test_a_prepared_optimizer_brings_its_scaler(tmp_path: Path) -> None:
    """Accelerate has none on a CPU, so it is given one."""
    out = tmp_path / "runs"
    setup = Setup(precision="16-mixed", accumulate=1)
    plain_loop(out, setup)
    accelerator = accelerate.Accelerator(cpu=True)
    accelerator.scaler = networks.scaler()
    network = Network()
    network, optimizer, batches = accelerator.prepare(network, networks.optimizer_of(network), loader())
    with ky.record("agreement", arm="accelerate", seed=3, out=out) as run:
        run.watch(network, optimizer, **setup.watch)
        for x, y in run.steps([batch for _ in range(EPOCHS) for batch in batches]):
            with setup.autocast():
                loss = network.loss(x, y)
            accelerator.backward(loss)
            accelerator.scaler.unscale_(optimizer.optimizer)
            nn.utils.clip_grad_norm_(network.parameters(), setup.clip)
            optimizer.step()
            optimizer.zero_grad()
            run.log(loss=loss)
    assert accelerator.scaler.get_scale() > networks.scaler().get_scale(), "it was at work"
    assert_agreement(out, "plain", "accelerate")
