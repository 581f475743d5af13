"""A watched network that is killed on request, for tests: as a study, and as a recorded loop.

``KILL_AT`` in the environment is the step in whose middle the process kills itself; the steps that it computes are
appended to the file ``STEPS``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import kymograph as ky


def loss_of(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
    """Returns the mean squared error on a batch."""
    return nn.functional.mse_loss(model(batch[0]), batch[1])


class Attending(nn.Module):
    """A network with attention, dropout and a part that is never called."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.unused = nn.Linear(4, 8), nn.Linear(2, 2)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.rest = nn.Sequential(nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.first(x)[:, None, :].expand(-1, 3, -1)
        return self.rest(self.attention(hidden, hidden, hidden)[0].mean(1))


def train(run: ky.ActiveRun, optimizer_name: str, steps: int) -> dict[str, float]:
    """Trains a small network under a deep probe."""
    with run.seeded("init"):
        model = Attending()
    optimizer: torch.optim.Optimizer
    if optimizer_name == "adam":
        optimizer = torch.optim.Adam(model.parameters(), 0.01)
    else:
        optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    run.resumable(model=model, optimizer=optimizer, every=7)
    x = torch.randn(64, 4, generator=run.generator("data"))
    y = x.sum(1, keepdim=True).tanh()
    run.watch(model, optimizer, every=2, level="deep", loss=loss_of, batch=(x[:32], y[:32]))
    for step in run.steps(steps):
        rows = torch.randint(0, 64, (16,))  # from the global generator
        loss = loss_of(model, (x[rows], y[rows]))
        optimizer.zero_grad()
        loss.backward()
        with Path(os.environ["STEPS"]).open("a") as file:
            file.write(f"{step}\n")
        if str(step) == os.environ.get("KILL_AT"):
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.step()
        run.log(loss=loss)
    return {"final_loss": float(loss)}


@ky.study(question="Which one is faster?", arms={"sgd": {}, "adam": {"optimizer": "adam"}})
def watched_study(run: ky.ActiveRun, *, optimizer: str = "sgd", steps: int = 30) -> dict[str, float]:
    """Trains under a probe."""
    return train(run, optimizer, steps)


if __name__ == "__main__":
    way, arm, out = sys.argv[1:]
    if way == "study":
        watched_study.run([5], arms=[arm], out=out, quiet=True)
    else:
        torch.manual_seed(5)
        with ky.record("loop", arm=arm, seed=5, out=out) as recorded:
            recorded.summary |= train(recorded, arm, 30)
