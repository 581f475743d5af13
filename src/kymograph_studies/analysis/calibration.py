"""A trained network's credit cosines against their nulls, layer by layer and over the deep layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor

from kymograph._statistics.p_values import holm, monte_carlo_p
from kymograph.quantities import as_float64, cosine
from kymograph_studies.analysis import NULLS, REFERENCE
from kymograph_studies.analysis.credit import Pairs, closed_form_sd
from kymograph_studies.analysis.flow import float64_cosines, flow
from kymograph_studies.models.blocks import BlockNetwork
from kymograph_studies.rules.losses import output_error


@dataclass(frozen=True)
class Null:
    """The values of one null, one per draw."""

    values: np.ndarray  # (K,)

    @property
    def mean(self) -> float:
        """The mean over draws."""
        return float(self.values.mean())

    @property
    def sd(self) -> float:
        """The standard deviation over draws."""
        return float(self.values.std(ddof=1))


@dataclass(frozen=True)
class PointCalibration:
    """The credit at one point of the stream, or averaged over several."""

    name: str
    observed: float
    """Mean cosine with the training matrices."""
    nulls: dict[str, Null]
    p: dict[str, float]
    """Monte-Carlo p-value against each null."""
    closed_sd: float
    """Standard deviation under fresh matrices, in closed form."""
    below_floor: int = 0
    out: float = math.nan
    """The same with the gradient one point further, on which the credit acts."""
    recheck: float = math.nan
    """Mean cosine between this gradient and the same in float64; 1 means that float32 is enough."""
    untrained: float = math.nan
    """Mean cosine with the training matrix, on the network before training."""
    p_holm: float = math.nan
    """The p-value against the null `REFERENCE`, corrected among the points; NaN if that null was not drawn."""

    @property
    def z(self) -> float:
        """The observed cosine in units of the closed form's standard deviation."""
        return self.observed / self.closed_sd if self.closed_sd > 0 else math.nan


@dataclass(frozen=True)
class CreditCalibration:
    """All layers, the deep mean, and the positive control."""

    layers: tuple[PointCalibration, ...]
    deep: PointCalibration
    control: float
    """The gradient compared with itself: must be 1."""
    draws: int
    images: int
    metadata: dict[str, object] = field(default_factory=dict)
    """What was calibrated: the file, its data and the seed."""


def errors_and_gradients(net: BlockNetwork, x: Tensor, y: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Returns the output error (n, C) and each image's gradient of its own loss at h_0..h_L, as measured there."""
    _, logits, gradients = flow(net, x, y)
    return output_error(logits, y), [net.measured(gradient) for gradient in gradients]


def calibrate(
    net: BlockNetwork,
    feedback: Sequence[Tensor],
    x: Tensor,
    y: Tensor,
    draws: int = 999,
    seed: int = 0,
    nulls: Sequence[str] | None = None,
    untrained: BlockNetwork | None = None,
) -> CreditCalibration:
    """Returns the credit's cosines at every point of the stream with their nulls.

    Point l is served by B_l, and the last one by B_{L-1} again, as in the script. The deep mean is over l >= 1, and
    its null draws B_{L-1} once for both of its points.
    """
    error, gradients = errors_and_gradients(net, x, y)
    depth = len(net.blocks)
    serving = [min(point, depth - 1) for point in range(depth + 1)]
    matrices = [as_float64(matrix) for matrix in feedback]
    pairs = [Pairs.of(error, gradient) for gradient in gradients]
    chosen = NULLS.names() if nulls is None else nulls
    drawn = {name: NULLS.load(name)(pairs, matrices, serving, draws, seed).cpu() for name in chosen}  # (points, K)
    observed = [_observed(pair, matrices[index]) for pair, index in zip(pairs, serving, strict=True)]
    rechecks = float64_cosines(net, gradients, x, y)
    before = None if untrained is None else errors_and_gradients(untrained, x, y)
    layers = []
    for point, (pair, index) in enumerate(zip(pairs, serving, strict=True)):
        at_point = {name: Null(values[point].numpy()) for name, values in drawn.items()}
        matrix = matrices[index]
        layers.append(
            PointCalibration(
                name=f"h_{point}",
                observed=observed[point],
                nulls=at_point,
                p={name: monte_carlo_p(observed[point], null.values) for name, null in at_point.items()},
                closed_sd=closed_form_sd([pair.alignment()]),
                below_floor=pair.below_floor,
                out=_observed(pairs[point + 1], matrix) if point < depth else math.nan,
                recheck=float(rechecks[point].nanmean()),
                untrained=math.nan if before is None else _observed(Pairs.of(before[0], before[1][point]), matrix),
            )
        )
    corrected = holm([layer.p[REFERENCE] for layer in layers]) if REFERENCE in drawn else [math.nan] * len(layers)
    layers = [replace(layer, p_holm=p) for layer, p in zip(layers, corrected, strict=True)]
    deep_observed = float(np.mean(observed[1:]))
    deep_null = {name: values[1:].mean(0) for name, values in drawn.items()}
    deep = PointCalibration(
        "deep mean",
        deep_observed,
        {name: Null(values.numpy()) for name, values in deep_null.items()},
        {name: monte_carlo_p(deep_observed, values.numpy()) for name, values in deep_null.items()},
        _deep_sd(pairs, serving),
        sum(pair.below_floor for pair in pairs[1:]),
    )
    control = float(np.nanmean([float(cosine(g, g).nanmean()) for g in gradients]))
    return CreditCalibration(tuple(layers), deep, control, draws, len(y))


def _observed(pairs: Pairs, matrix: Tensor) -> float:
    """Returns the mean cosine with one matrix (d, C)."""
    return float(pairs.mean_cosines(matrix[None])[0])


def _deep_sd(pairs: Sequence[Pairs], serving: Sequence[int]) -> float:
    """Returns the closed form for the mean over points 1..L; points that share a matrix are added before squaring."""
    groups: dict[int, list[Tensor]] = {}
    for pair, index in zip(pairs[1:], serving[1:], strict=True):
        groups.setdefault(index, []).append(pair.alignment())
    count = len(pairs) - 1
    variance = sum((closed_form_sd(group) * len(group) / count) ** 2 for group in groups.values())
    return math.sqrt(variance)
