"""Do a rule's updates align with the gradient, and its feedback with the weights, more than random feedback would?

For every part of a network (embed, blocks) the statistic is the cosine between what the rule puts into ``.grad`` on one
batch and the gradient. To first order, a step in a direction of cosine c lowers the loss c times as much as a step of
the same length along the gradient. The null is what fresh feedback, which had no part in training, gives on the same
network and batch.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

import kymograph as ky
from kymograph._shapes import Float
from kymograph.quantities import as_float64, cosine, directions, norms
from kymograph_studies.models.blocks import parameter_names
from kymograph_studies.rules import RULES, make
from kymograph_studies.rules.base import Rule
from kymograph_studies.rules.layerwise import LayerRule

FRESH = {"layers": "fa", "network": "fa", "blocks": "dfa"}
"""The rule whose fresh feedback is the null, by what a rule acts on."""


class Alignment(NamedTuple):
    """A rule's updates of the hidden parts, compared with the gradient, by part."""

    cosines: dict[str, float]
    """NaN for a part that gets no update."""
    sizes: dict[str, float]
    """The norm of the rule's update over that of the gradient."""

    @property
    def mean(self) -> float:
        """The mean cosine over the parts that get an update; NaN if none does."""
        return mean_known(self.cosines)


def part_gradients(rule: Rule, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Returns what ``rule`` puts into ``.grad`` on one batch, a vector per part; without side effects.

    It is computed on a copy, because a pass in training mode updates batch-norm statistics, and some rules learn from
    it.
    """
    twin = copy.deepcopy(rule)
    twin.net.zero_grad(set_to_none=True)
    twin.backward(x, y)
    return _by_part(twin.net)


def alignment(rule: Rule, x: Tensor, y: Tensor, exact: Mapping[str, Tensor] | None = None) -> Alignment:
    """Returns the cosine and the relative size of the rule's updates at every part but the read-out.

    ``exact`` are the gradients, if they are known: see `exact_gradients`.
    """
    updates = part_gradients(rule, x, y)
    true = exact_gradients(rule, x, y) if exact is None else exact
    hidden = [part for part in updates if part != "readout"]
    return Alignment(
        {part: float(cosine(updates[part], true[part])) for part in hidden},
        {part: float(norms(updates[part]) / norms(true[part])) for part in hidden},
    )


def exact_gradients(rule: Rule, x: Tensor, y: Tensor) -> dict[str, Tensor]:
    """Returns the gradient of the rule's loss on one batch by autograd, a vector per part; without side effects."""
    net = copy.deepcopy(rule.net)
    net.zero_grad(set_to_none=True)
    rule.loss(net(x), y).sum().backward()
    return _by_part(net)


def fresh_alignments(
    name: str, rule: Rule, x: Tensor, y: Tensor, draws: int, seed: int
) -> dict[str, Float[Tensor, " draws"]]:
    """Returns the cosines (draws,) that fresh feedback gives at every hidden part, on the rule's network as it is.

    Args:
        name: the rule's name, which determines whether its feedback replaces weights or chains of them.
        rule: the rule, trained.
        x: inputs.
        y: their targets.
        draws: how many times feedback is drawn.
        seed: the seed of the draws.
    """
    fresh = FRESH[RULES.part(name).properties.get("acts_on", "network")]
    exact = exact_gradients(rule, x, y)
    net = copy.deepcopy(rule.net)
    rows = []
    for number in range(draws):
        draw = ky.generator(seed, "null", "fresh feedback", str(number))
        rows.append(alignment(make(fresh, net, loss=rule.loss, generator=draw, example=x[:2]), x, y, exact).cosines)
    return {part: torch.tensor([row[part] for row in rows], dtype=torch.float64) for part in rows[0]}


def mean_known(values: Mapping[str, float]) -> float:
    """Returns the mean of the values that are not NaN; NaN if all are."""
    return float(torch.tensor(list(values.values()), dtype=torch.float64).nanmean())


def _by_part(net: nn.Module) -> dict[str, Tensor]:
    gradients = {
        name: as_float64(torch.zeros_like(weight) if weight.grad is None else weight.grad).flatten()
        for name, weight in net.named_parameters()
    }
    return {part: torch.cat([gradients[name] for name in names]) for part, names in parameter_names(net).items()}


def feedback_angles(rule: Rule) -> dict[str, float]:
    """Returns the angle in degrees between W and B, flattened, for every weight that carries a signal backward.

    Empty for a rule whose feedback does not replace single weights.
    """
    if not isinstance(rule, LayerRule):
        return {}
    return {name: angle(weight, rule.feedback_of(name)) for name, weight in rule.carrying_weights().items()}


def angle(a: Tensor, b: Tensor) -> float:
    """Returns the angle between two tensors of one shape in degrees, accurate for small angles; NaN if one is zero.

    >>> round(angle(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0])), 6)
    45.0
    """
    u, v = directions(a.detach().flatten()), directions(b.detach().flatten())
    # Kahan's formula: the arc cosine of a number near 1 loses half of its digits.
    half = torch.atan2(torch.linalg.vector_norm(u - v), torch.linalg.vector_norm(u + v))
    return float(2 * half.rad2deg())
