"""Does warm-up lower the final sharpness? A study in one function.

kymograph run examples/warmup_sharpness.py --n-seeds 10
kymograph judge runs --study examples/warmup_sharpness.py
kymograph figure warmup-sharpness-curves

The largest eigenvalue of the Hessian of the loss, and the training loss, with and without warm-up.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import kymograph as ky
from kymograph_studies.data.images import load_digits


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Returns the mean cross-entropy on a batch."""
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


@ky.study(
    name="warmup-sharpness",
    question="Does warm-up lower the final sharpness?",
    arms={"constant": {}, "warmup": {"warmup_steps": 100}},
    claims=[ky.Claim.compare("sharpness", "warmup", "<", "constant", margin=1.1)],
    headlines={"sharpness": "final sharpness", "accuracy": "test accuracy"},
    series=[
        ky.SeriesDisplay("sharpness", "Sharpness", "largest eigenvalue", forms=("curves",)),
        ky.SeriesDisplay("loss", "Training loss", "cross-entropy", forms=("curves",)),
    ],
)
def warmup_study(
    run: ky.ActiveRun, *, lr: float = 0.5, warmup_steps: int = 0, steps: int = 300, every: int = 10
) -> dict[str, float]:
    """Trains an MLP on the digits and tracks the largest eigenvalue of the loss's Hessian."""
    task = load_digits()
    x, y = task.train.flatten(1).float() / 255 - 0.3, task.train_labels
    with run.seeded("init"):
        model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr)
    run.resumable(model=model, optimizer=optimizer)
    probe = run.watch(model, optimizer, every=every, level=["sharpness"], loss=loss_of, batch=(x[:500], y[:500]))
    order = run.generator("batches")
    for step in run.steps(steps):
        optimizer.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / max(warmup_steps, 1))
        rows = torch.randint(0, len(x), (64,), generator=order)
        optimizer.zero_grad()
        loss = loss_of(model, (x[rows], y[rows]))
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
    right = model(task.test.flatten(1).float() / 255 - 0.3).argmax(1) == task.test_labels
    return {"sharpness": probe.rows()[-1].values["sharpness"]["network"], "accuracy": float(right.float().mean())}
