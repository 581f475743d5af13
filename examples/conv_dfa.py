"""Does direct feedback alignment train convolutions?

kymograph run examples/conv_dfa.py --n-seeds 10
kymograph judge runs --study examples/conv_dfa.py
kymograph figure conv-dfa-kymograph

The update of every layer relative to its weights, under backpropagation, under DFA, and with only the read-out trained.
"""

from __future__ import annotations

import torch
from torch import nn

import kymograph as ky
from kymograph_studies import rules
from kymograph_studies.data.images import load_digits
from kymograph_studies.models.cut import cut


@ky.study(
    name="conv-dfa",
    question="Does direct feedback alignment train convolutions?",
    arms={"bp": {"rule": "bp"}, "dfa": {"rule": "dfa"}, "shallow": {"rule": "shallow"}},
    claims=[
        ky.Claim.compare("accuracy", "dfa", "<", "bp", margin=0.02, scale="difference"),
        ky.Claim.compare("accuracy", "dfa", ">", "shallow", margin=0.02, scale="difference"),
    ],
    headlines={"accuracy": "test accuracy"},
    series=[ky.SeriesDisplay("update_ratio", "Update over weight", "ratio", forms=("kymograph", "profile"),
                             options={"sites": "layer"}),
            ky.SeriesDisplay("loss", "Training loss", "cross-entropy", forms=("curves",))],
)  # fmt: skip
def conv_study(run: ky.ActiveRun, *, rule: str = "bp", lr: float = 0.003, width: int = 16, steps: int = 300) -> dict:
    """Trains a plain convolutional network on the digits under one rule."""
    task = load_digits()
    x, y = task.train.float() / 255 - 0.3, task.train_labels
    with run.seeded("init"):
        blocks = [nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU()) for _ in range(3)]
        embed = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.ReLU())
        head = nn.Sequential(nn.Flatten(), nn.Linear(width * 64, 10))
        net = cut(nn.Sequential(embed, *blocks, head))
    learning = rules.make(rule, net, generator=run.generator("feedback"), example=x[:2])
    optimizer = torch.optim.Adam(learning.trained_parameters(), lr)
    run.watch(net, optimizer, every=5, level=["update_ratio"], layers=["embed.0", "blocks.*.0", "head.1"])
    order = run.generator("batches")
    for step in run.steps(steps):
        rows = torch.randint(0, len(x), (64,), generator=order)
        optimizer.zero_grad()
        credit = learning.backward(x[rows], y[rows])
        optimizer.step()
        learning.after_update(step)
        run.log(loss=credit.loss)
    return {"accuracy": float((net(task.test.float() / 255 - 0.3).argmax(1) == task.test_labels).float().mean())}
