"""The training of transformers' Trainer, recorded by a callback: it agrees with a plain loop, resumes and fails well."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.frameworks import networks
from tests.frameworks.networks import BATCH, EPOCHS, Setup, assert_agreement, assert_same_weights, plain_loop

transformers = pytest.importorskip(
    "transformers", reason="transformers is not installed: pip install 'kymograph[hf]'"
)
pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.filterwarnings("ignore::Warning:transformers.*"),
    pytest.mark.filterwarnings("ignore::Warning:accelerate.*"),
]


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = networks.body()
        self.fails_at: int | None = None
        self.calls = 0

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        self.calls += self.training
        if self.calls == self.fails_at:
            raise RuntimeError("out of paper")
        logits = self.body(x)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def samples() -> list[dict[str, Tensor]]:
    return [{"x": x, "labels": y} for x, y in networks.data()]


def callback(out: Path, setup: Setup = Setup(), arm: str = "hf", **options: Any) -> Any:
    from kymograph.hf import KymographCallback

    return KymographCallback("agreement", arm=arm, out=out, level=setup.level, every=setup.every, **options)


class InOrder(transformers.Trainer):
    def _get_train_sampler(self, *_: Any) -> Any:
        return torch.utils.data.SequentialSampler(self.train_dataset)


def trainer(out: Path, setup: Setup, network: nn.Module, *callbacks: Any, **options: Any) -> Any:
    arguments = transformers.TrainingArguments(**{
        "output_dir": str(out.parent / "checkpoints"), "num_train_epochs": EPOCHS,
        "per_device_train_batch_size": BATCH, "gradient_accumulation_steps": setup.accumulate,
        "max_grad_norm": setup.clip, "bf16": setup.precision == "bf16-mixed", "use_cpu": True, "seed": 3,
        "logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True, **options,
    })  # fmt: skip
    optimizer = networks.optimizer_of(network)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    return InOrder(
        network, arguments, train_dataset=samples(), eval_dataset=samples(), callbacks=list(callbacks),
        optimizers=(optimizer, constant),
    )  # fmt: skip


@pytest.mark.parametrize("setup", [Setup(), Setup(accumulate=1), Setup(precision="bf16-mixed"), Setup(every=4)])
def test_the_plain_loop_and_transformers_agree(setup: Setup, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    plain = plain_loop(out, setup)
    network = Network()
    trainer(out, setup, network, callback(out, setup)).train()
    assert_same_weights(plain, network)
    assert_agreement(out, "plain", "hf")


def test_recording_does_not_change_training(tmp_path: Path) -> None:
    recorded, bare = Network(), Network()
    trainer(tmp_path / "runs", Setup(), recorded, callback(tmp_path / "runs")).train()
    trainer(tmp_path / "runs", Setup(), bare).train()
    assert all(torch.equal(one, other) for one, other in zip(recorded.parameters(), bare.parameters(), strict=True))
