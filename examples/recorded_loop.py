"""How large are the updates of each layer? A plain training loop, recorded without declaring a study.

python examples/recorded_loop.py
kymograph figure optimizers-kymograph
kymograph report runs -o report.html

The update of each layer relative to its weights, under SGD and Adam.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import kymograph as ky
from kymograph_studies.data.images import load_digits

OPTIMIZERS = {"sgd": lambda weights: torch.optim.SGD(weights, 0.1), "adam": lambda weights: torch.optim.Adam(weights)}


def train(arm: str, seed: int, directory: str, steps: int) -> None:
    """Trains and records one run."""
    task = load_digits()
    x, y = task.train.flatten(1).float() / 255 - 0.3, task.train_labels
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = OPTIMIZERS[arm](model.parameters())
    question = "How large are the updates of each layer?"
    with ky.record("optimizers", arm=arm, seed=seed, config={"steps": steps}, out=directory, question=question) as run:
        run.watch(model, optimizer, level=["update_ratio"], layers=["0", "2", "4"], every=2)
        for _ in run.steps(steps):
            rows = torch.randint(0, len(x), (64,))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimizer.step()
            run.log(loss=loss)
        run.summary["loss"] = loss.item()


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--dir", default="runs")
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--seeds", type=int, default=10)
    given = options.parse_args()
    for one in ky.fixed_seeds(given.seeds):
        for name in OPTIMIZERS:
            train(name, one, given.dir, given.steps)
