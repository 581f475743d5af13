"""Do large learning rates kill ReLUs, and in which layers?

kymograph run examples/dead_relus.py --n-seeds 10
kymograph judge runs --study examples/dead_relus.py
kymograph figure dead-relus-kymograph

The fraction of units that are 0 for a whole batch, by layer; layers have their names in the network.
"""

from __future__ import annotations

import torch
from torch import nn

import kymograph as ky
from kymograph_studies.data.images import load_digits


@ky.study(
    name="dead-relus",
    question="Does a tenfold learning rate kill ReLUs?",
    arms={"lr 0.1": {"lr": 0.1}, "lr 1": {"lr": 1.0}},
    claims=[ky.Claim.compare("dead", "lr 1", ">", "lr 0.1", margin=0.05, scale="difference")],
    headlines={"dead": "share of dead units at the end"},
    series=[ky.SeriesDisplay("dead_fraction", "Dead ReLUs", "share of units", log=False, forms=("kymograph", "profile"),
                             options={"sites": "layer"})],
)  # fmt: skip
def dead_study(run: ky.ActiveRun, *, lr: float = 0.1, depth: int = 6, width: int = 64, steps: int = 300) -> dict:
    """Trains a ReLU network on the digits and counts the units that are 0 for a whole batch."""
    task = load_digits()
    x, y = task.train.flatten(1).float() / 255 - 0.3, task.train_labels
    with run.seeded("init"):
        layers = [nn.Linear(64, width), nn.ReLU()]
        for _ in range(depth - 1):
            layers += [nn.Linear(width, width), nn.ReLU()]
        model = nn.Sequential(*layers, nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr)
    run.resumable(model=model, optimizer=optimizer)
    probe = run.watch(model, optimizer, every=5, level=["dead_fraction"])
    order = run.generator("batches")
    for _ in run.steps(steps):
        rows = torch.randint(0, len(x), (256,), generator=order)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
        run.log(loss=loss)
    last = probe.rows()[-1].values["dead_fraction"]
    return {"dead": sum(last.values()) / len(last)}
