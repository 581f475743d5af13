"""Lightning's training, recorded by a callback: it agrees with a plain loop, resumes, and ends as it ended."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import kymograph as ky
from tests.frameworks import networks
from tests.frameworks.networks import BATCH, EPOCHS, Setup, assert_agreement, assert_same_weights, plain_loop, run_of

lightning = pytest.importorskip("lightning", reason="Lightning is not installed: pip install 'kymograph[lightning]'")
pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore::Warning:lightning.*"),
    pytest.mark.filterwarnings("ignore::Warning:pytorch_lightning.*"),
    pytest.mark.filterwarnings("ignore::Warning:torchmetrics.*"),
]


class Module(lightning.LightningModule):
    def __init__(self, lr: float = 1e-2, loss_function: Any = None) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=[] if loss_function else ["loss_function"])
        self.body = networks.body()
        self.fails_at: int | None = None

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        x, y = batch
        if self.fails_at == self.global_step:
            raise RuntimeError("out of paper")
        loss = nn.functional.cross_entropy(self.body(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self.body(x), y))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return networks.optimizer_of(self)


def loader() -> torch.utils.data.DataLoader[Any]:
    return torch.utils.data.DataLoader(networks.data(), batch_size=BATCH)  # type: ignore[arg-type]


def callback(out: Path, setup: Setup = Setup(), arm: str = "lightning", **options: Any) -> Any:
    from kymograph.lightning import KymographCallback

    lightning.seed_everything(3, verbose=False)
    return KymographCallback("agreement", arm=arm, out=out, level=setup.level, every=setup.every, **options)


def trainer(out: Path, setup: Setup, *callbacks: Any, **options: Any) -> Any:
    return lightning.Trainer(**{
        "max_epochs": EPOCHS, "accumulate_grad_batches": setup.accumulate, "gradient_clip_val": setup.clip,
        "precision": setup.precision, "callbacks": list(callbacks), "logger": False, "accelerator": "cpu",
        "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
        "default_root_dir": out.parent, **options,
    })  # fmt: skip


@pytest.mark.parametrize("setup", [Setup(), Setup(accumulate=1), Setup(precision="bf16-mixed"), Setup(every=4)])
def test_the_plain_loop_and_lightning_agree(setup: Setup, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    network = plain_loop(out, setup)
    module = Module()
    trainer(out, setup, callback(out, setup)).fit(module, loader())
    assert_same_weights(network, module)
    assert_agreement(out, "plain", "lightning")


def test_recording_does_not_change_training(tmp_path: Path) -> None:
    recorded, bare = Module(), Module()
    trainer(tmp_path / "runs", Setup(), callback(tmp_path / "runs")).fit(recorded, loader())
    trainer(tmp_path / "runs", Setup()).fit(bare, loader())
    assert all(torch.equal(one, other) for one, other in zip(recorded.parameters(), bare.parameters(), strict=True))
