"""Vector regression: reproduce the input, or its image under a fixed random orthogonal map."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from kymograph import streams


@dataclass(frozen=True)
class VectorTask:
    """Training vectors with targets, and a separate fixed batch on which every arm is measured."""

    inputs: Tensor  # (samples, width)
    targets: Tensor  # (samples, width)
    probe_inputs: Tensor  # (probe samples, width)
    probe_targets: Tensor  # (probe samples, width)


def vector_task(seed: int, kind: str, n_samples: int, width: int, n_probe: int) -> VectorTask:
    """Returns uniform inputs in [-1, 1] with targets equal to them (``identity``) or rotated (``orthogonal``).

    A residual network whose branches start at zero solves the identity before training; no initialisation
    used here solves a random rotation.
    """
    inputs = _uniform(streams.generator(seed, "data"), n_samples, width)
    probe = _uniform(streams.generator(seed, "probe"), n_probe, width)
    if kind == "identity":
        return VectorTask(inputs, inputs.clone(), probe, probe.clone())
    rotation = random_orthogonal(seed, width)
    return VectorTask(inputs, inputs @ rotation, probe, probe @ rotation)


def random_orthogonal(seed: int, width: int) -> Tensor:
    """Returns an orthogonal matrix uniform under the Haar measure (QR of a Gaussian, signs fixed by R's diagonal)."""
    gaussian = torch.randn(width, width, generator=streams.generator(seed, "task"), dtype=torch.float64)
    orthogonal, triangular = torch.linalg.qr(gaussian)
    return (orthogonal * triangular.diagonal().sign()).float()


def batch_indices(seed: int, steps: int, batch_size: int, n_samples: int) -> Tensor:
    """Returns the sample indices of every batch, drawn with replacement, shape (steps, batch)."""
    return torch.randint(0, n_samples, (steps, batch_size), generator=streams.generator(seed, "batches"))


def _uniform(draw: torch.Generator, *shape: int) -> Tensor:
    return torch.empty(*shape).uniform_(-1.0, 1.0, generator=draw)
