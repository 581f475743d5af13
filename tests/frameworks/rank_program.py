"""Trains by a framework, in as many processes as torchrun starts; the global batch is always the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

SIZE = int(os.environ.get("WORLD_SIZE", "1"))
FRAMEWORK, OUT, RESUME = sys.argv[1], Path(sys.argv[2]), "resume" in sys.argv
SAMPLES, BATCH, STEPS = 48, 8, 12
WATCH = {"level": "standard", "every": 1}


def body() -> nn.Sequential:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.LayerNorm(16), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 3))


def samples() -> tuple[Tensor, Tensor]:
    source = torch.Generator().manual_seed(2)
    return torch.randn(SAMPLES, 8, generator=source), torch.randint(0, 3, (SAMPLES,), generator=source)


def with_lightning() -> None:
    import lightning

    from kymograph.lightning import KymographCallback

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.body = body()

        def training_step(self, batch: list[Tensor], index: int) -> Tensor:
            return nn.functional.cross_entropy(self.body(batch[0]), batch[1])

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

    data = torch.utils.data.TensorDataset(*samples())
    sampler = None
    if SIZE > 1:
        rank = int(os.environ["RANK"])
        sampler = torch.utils.data.DistributedSampler(data, SIZE, rank, shuffle=False)
    loader = torch.utils.data.DataLoader(data, batch_size=BATCH // SIZE, sampler=sampler)
    lightning.seed_everything(3)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=SIZE, strategy="ddp" if SIZE > 1 else "auto", max_steps=STEPS, max_epochs=-1,
        gradient_clip_val=0.5, logger=False, enable_progress_bar=False, enable_model_summary=False,
        enable_checkpointing=False, use_distributed_sampler=False,
        callbacks=[KymographCallback("frameworks", arm=f"lightning {SIZE}", seed=3, out=OUT, **WATCH)],
    )  # fmt: skip
    trainer.fit(Module(), loader)


def with_transformers() -> None:
    import transformers

    from kymograph.hf import KymographCallback

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = body()

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Any]:
            logits = self.body(x)
            return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}

    class InOrder(transformers.Trainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    x, y = samples()
    data = [{"x": one, "labels": label} for one, label in zip(x, y, strict=True)]
    arguments = transformers.TrainingArguments(
        output_dir=str(OUT / f"checkpoints-{SIZE}"), per_device_train_batch_size=BATCH // SIZE, max_steps=STEPS,
        learning_rate=0.05, max_grad_norm=0.5, optim="sgd", lr_scheduler_type="constant", seed=3, use_cpu=True,
        report_to=[], logging_steps=4, save_strategy="steps", save_steps=6, disable_tqdm=True,
        ddp_backend="gloo" if SIZE > 1 else None, dataloader_drop_last=False,
    )  # fmt: skip
    callback = KymographCallback("frameworks", arm=f"transformers {SIZE}", seed=3, out=OUT, **WATCH)
    net = Net()
    trainer = InOrder(model=net, args=arguments, train_dataset=data, callbacks=[callback])
    trainer.train(resume_from_checkpoint=str(OUT / f"checkpoints-{SIZE}" / "checkpoint-6") if RESUME else None)


torch.set_num_threads(1)
{"lightning": with_lightning, "transformers": with_transformers}[FRAMEWORK]()
