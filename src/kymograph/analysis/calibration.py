"""A trained network's credit cosines against their nulls, layer by layer and over the deep layers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from kymograph import streams
from kymograph.analysis.credit import Pairs, closed_form_sd, monte_carlo_p
from kymograph.analysis.flow import flow, in_float64
from kymograph.models.blocks import BlockNetwork
from kymograph.probes import measures
from kymograph.rules.direct import output_error
from kymograph.statistics.multiplicity import holm

NULLS = ("fresh", "rows", "columns", "samples", "directions")
ABOUT = {
    "fresh": "fresh matrices of the same law",
    "rows": "the training matrix with its rows (neurons) permuted",
    "columns": "the training matrix with its class columns permuted",
    "samples": "errors and gradients of different images",
    "directions": "directions at random, anew for every image",
}


@dataclass(frozen=True)
class Null:
    """What one null gave, by draw."""

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
class Layer:
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
    """The same credit against the gradient one point further, on which it acts."""
    recheck: float = math.nan
    """Mean cosine between this gradient and the same in float64; 1 means that float32 was enough."""
    untrained: float = math.nan
    """The training matrix on the network before training."""
    p_holm: float = math.nan

    @property
    def z(self) -> float:
        """The observed cosine in units of the closed form's standard deviation."""
        return self.observed / self.closed_sd if self.closed_sd > 0 else math.nan


@dataclass(frozen=True)
class Calibration:
    """All layers, the deep mean, and the positive control."""

    layers: tuple[Layer, ...]
    deep: Layer
    control: float
    """The gradient compared with itself: must be 1."""
    draws: int
    images: int
    facts: dict[str, object] = field(default_factory=dict)


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
    nulls: Sequence[str] = NULLS,
    untrained: BlockNetwork | None = None,
) -> Calibration:
    """Returns the credit's cosines at every point of the stream with their nulls.

    Point l is served by B_l, and the last one by B_{L-1} again, as the script has it; the deep mean is over l >= 1, and
    its null draws B_{L-1} once for both of its points.
    """
    error, gradients = errors_and_gradients(net, x, y)
    depth = len(net.blocks)
    serving = [min(place, depth - 1) for place in range(depth + 1)]
    matrices = [measures.as_float64(matrix) for matrix in feedback]
    pairs = [Pairs.of(error, gradient) for gradient in gradients]
    drawn = {name: _null_values(name, pairs, matrices, serving, draws, seed) for name in nulls}  # (points, K) each
    observed = [float(pair.mean_cosines(matrices[s][None])[0]) for pair, s in zip(pairs, serving, strict=True)]
    exact = [net.measured(gradient) for gradient in in_float64(net, x, y)[2]]
    before = None if untrained is None else errors_and_gradients(untrained, x, y)
    layers = []
    for place, (pair, s) in enumerate(zip(pairs, serving, strict=True)):
        mine = {name: Null(values[place].numpy()) for name, values in drawn.items()}
        following = pairs[place + 1] if place < depth else None
        layers.append(
            Layer(
                f"h_{place}",
                observed[place],
                mine,
                {name: monte_carlo_p(observed[place], drawn[name][place]) for name in drawn},
                closed_form_sd([pair.alignment()]),
                pair.below_floor,
                math.nan if following is None else float(following.mean_cosines(matrices[s][None])[0]),
                float(measures.cosine(gradients[place], exact[place]).nanmean()),
                math.nan
                if before is None
                else float(Pairs.of(before[0], before[1][place]).mean_cosines(matrices[s][None])[0]),
            )
        )
    first = next(iter(drawn), None)
    corrected = holm([layer.p[first] for layer in layers]) if first else [math.nan] * len(layers)
    layers = [Layer(**{**vars(layer), "p_holm": p}) for layer, p in zip(layers, corrected, strict=True)]
    deep_observed = float(np.mean(observed[1:]))
    deep_null = {name: values[1:].mean(0) for name, values in drawn.items()}
    deep = Layer(
        "deep mean",
        deep_observed,
        {name: Null(values.numpy()) for name, values in deep_null.items()},
        {name: monte_carlo_p(deep_observed, values) for name, values in deep_null.items()},
        _deep_sd(pairs, serving),
        sum(pair.below_floor for pair in pairs[1:]),
    )
    control = float(np.nanmean([float(measures.cosine(g, g).nanmean()) for g in gradients]))
    return Calibration(tuple(layers), deep, control, draws, len(y))


def _null_values(
    name: str, pairs: Sequence[Pairs], matrices: Sequence[Tensor], serving: Sequence[int], draws: int, seed: int
) -> Tensor:
    """Returns the null's mean cosine at every point and draw, (points, K); a matrix drawn serves all its points."""
    if name == "directions":
        return torch.stack(
            [
                pair.direction_cosines(
                    draws, np.random.default_rng(streams.stream_seed(seed, "null", name, str(place)))
                )
                for place, pair in enumerate(pairs)
            ]
        )
    if name == "samples":
        return torch.stack(
            [
                pair.shuffled_cosines(matrices[s], draws, streams.generator(seed, "null", name, str(place)))
                for place, (pair, s) in enumerate(zip(pairs, serving, strict=True))
            ]
        )
    rows: list[Tensor] = []
    stack = torch.empty(0)
    for place, (pair, s) in enumerate(zip(pairs, serving, strict=True)):
        if place == 0 or serving[place - 1] != s:
            stack = _draw_matrices(name, matrices[s], draws, streams.generator(seed, "null", name, str(s)))
        rows.append(pair.mean_cosines(stack))
    return torch.stack(rows)


def _draw_matrices(name: str, matrix: Tensor, draws: int, draw: torch.Generator) -> Tensor:
    """Returns ``draws`` matrices (K, d, C), in float32, of a null made from or instead of ``matrix``."""
    d, c = matrix.shape
    if name == "fresh":
        return torch.randn(draws, d, c, generator=draw) / math.sqrt(c)
    if name == "rows":
        order = torch.rand(draws, d, generator=draw).argsort(1)
        return matrix.float()[order]
    order = torch.rand(draws, c, generator=draw).argsort(1)
    return matrix.float().T[order].transpose(1, 2)


def _deep_sd(pairs: Sequence[Pairs], serving: Sequence[int]) -> float:
    """Returns the closed form for the mean over points 1..L, points of one matrix added before they are squared."""
    groups: dict[int, list[Tensor]] = {}
    for pair, s in list(zip(pairs, serving, strict=True))[1:]:
        groups.setdefault(s, []).append(pair.alignment())
    count = len(pairs) - 1
    variance = sum((closed_form_sd(group) * len(group) / count) ** 2 for group in groups.values())
    return math.sqrt(variance)
