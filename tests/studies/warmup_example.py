"""A study in one function, for tests: a small network on random data."""

from __future__ import annotations

import torch
from torch import nn

import kymograph as ky


@ky.study(
    question="Does warm-up lower the final loss?",
    arms={"constant": {}, "warmup": {"warmup_steps": 10}},
    claims=[ky.Claim.compare("final_loss", "warmup", "<", "constant", margin=1.1)],
    headlines={"final_loss": "final loss"},
)
def warmup_study(run: ky.ActiveRun, *, lr: float = 0.05, warmup_steps: int = 0, steps: int = 30) -> dict[str, float]:
    """Trains a small network, from data and weights of the run's own."""
    with run.seeded("init"):
        model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 1)).to(run.device)
    optimizer = torch.optim.SGD(model.parameters(), lr, momentum=0.9)
    run.resumable(model=model, optimizer=optimizer, every=7)
    draw = run.generator("data")
    x = torch.randn(64, 4, generator=draw)
    y = x.sum(1, keepdim=True).tanh()
    for step in run.steps(steps):
        optimizer.param_groups[0]["lr"] = lr * min(1.0, (step + 1) / max(warmup_steps, 1))
        rows = torch.randint(0, 64, (16,))  # from the global generator, which the run has set
        loss = nn.functional.mse_loss(model(x[rows]), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        run.log(loss=loss, weight={name: value.norm() for name, value in model.named_parameters()})
        if step == getattr(run, "stop_at", None):
            raise KeyboardInterrupt
    model.eval()
    return {"final_loss": nn.functional.mse_loss(model(x), y).item()}
