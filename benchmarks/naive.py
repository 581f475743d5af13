"""The scripts' way of working, written plainly: one network and one batch at a time, `.item()` at each step.

These are the baselines of `make bench`, and the second implementation that tests compare numbers with.
"""

from __future__ import annotations

import random

import torch
from torch import nn

CLIPPING_SETTINGS = (("extreme", 10, 5), ("moderate", 200, 10))


class NaiveNextToken(nn.Module):
    """An embedding and a linear read-out."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(4, 16)
        self.linear = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the logits."""
        return self.linear(self.embedding(x))


def clipping_run(seed: int, n_rare: int, epochs: int, clip: bool, n_samples: int = 1000) -> dict[str, list[float]]:
    """Trains one `clipping` run sample by sample; returns its per-step and per-100-step series."""
    torch.manual_seed(seed)
    model = NaiveNextToken()
    torch.manual_seed(seed)
    inputs = torch.randint(0, 4, (n_samples,))
    targets = torch.zeros(n_samples, dtype=torch.long)
    targets[random.Random(seed).sample(range(n_samples), n_rare)] = 1
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    names = ("loss", "grad_norm", "weight_norm", "weight_norm_change", "effective_dim", "rare_accuracy")
    out: dict[str, list[float]] = {name: [] for name in names}
    previous: float | None = None
    for step in range(epochs * n_samples):
        i = step % n_samples
        optimizer.zero_grad()
        loss = criterion(model(inputs[i : i + 1]), targets[i : i + 1])
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        weight_norm = sum(p.data.norm(2).item() ** 2 for p in model.parameters()) ** 0.5
        out["loss"].append(loss.item())
        out["grad_norm"].append(norm.item())
        out["weight_norm"].append(weight_norm)
        out["weight_norm_change"].append(0.0 if previous is None else abs(weight_norm - previous))
        previous = weight_norm
        if step % 100 == 0:
            with torch.no_grad():
                centred = model.embedding.weight - model.embedding.weight.mean(0, keepdim=True)
                eigenvalues = torch.linalg.eigvalsh(centred.T @ centred / 3).clamp(min=1e-10)
                p = eigenvalues / eigenvalues.sum()
                out["effective_dim"].append(torch.exp(-(p * p.log()).sum()).item())
                right = (model(inputs).argmax(1) == targets)[targets == 1]
                out["rare_accuracy"].append(right.float().mean().item())
    return out


def clipping_seed(seed: int) -> None:
    """Runs the whole `clipping` study for one seed: both imbalances, both arms."""
    for _, n_rare, epochs in CLIPPING_SETTINGS:
        for clip in (False, True):
            clipping_run(seed, n_rare, epochs, clip)


class NaiveStack(nn.Module):
    """Twenty layers of equal width, plain or residual."""

    def __init__(self, residual: bool, layers: int = 20, width: int = 64) -> None:
        super().__init__()
        self.residual = residual
        linear = [nn.Linear(width, width) for _ in range(layers)]
        self.layers = nn.ModuleList(linear)
        for layer in linear:
            nn.init.kaiming_normal_(layer.weight, mode="fan_in", nonlinearity="relu")
            nn.init.zeros_(layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Returns the last layer's output."""
        for layer in self.layers:
            branch = torch.relu(layer(x))
            x = x + branch if self.residual else branch
        return x


def depth_seed(seed: int, steps: int = 500) -> dict[str, list[float]]:
    """Runs the `depth` study for one seed as the script does: the plain arm, then the residual one."""
    torch.manual_seed(seed)
    x = torch.empty(1024, 64).uniform_(-1, 1)
    losses: dict[str, list[float]] = {}
    for name, residual in (("plain", False), ("residual", True)):
        model = NaiveStack(residual)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        losses[name] = []
        for _ in range(steps):
            rows = torch.randint(0, 1024, (64,))
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x[rows]), x[rows])
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
    return losses
