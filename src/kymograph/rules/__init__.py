"""How parameters get their update direction. A rule is one module with a ``PART`` and a function ``build``.

``PART`` says what a study must know of a rule before torch is loaded: its ``options``, the rule that normalises its
signal (``normalised``), if there is one, and whether it serves networks of replicas (``replicas``) besides those that
are cut into blocks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kymograph.registry import Registry

if TYPE_CHECKING:
    import torch
    from torch import nn

    from kymograph.rules.base import Rule
    from kymograph.rules.losses import Loss

RULES = Registry("kymograph.rules", "build")


def make(
    name: str,
    net: nn.Module,
    *,
    loss: Loss | None = None,
    generator: torch.Generator | None = None,
    example: Any = None,
    fast: bool = True,
    **options: Any,
) -> Rule:
    """Returns the rule called ``name`` on ``net``.

        rule = make("dfa", cut(model), generator=kymograph.generator(42, "feedback"), example=x[:2], penalty=0.01)
        optimizer.zero_grad()
        credit = rule.backward(x, y)
        optimizer.step()

    Args:
        net: a network cut into blocks, or a network of replicas.
        loss: maps (outputs, targets) to one loss per replica, or to a scalar. Default: cross-entropy.
        generator: where random feedback is drawn from.
        example: a small batch of inputs; a rule that draws feedback learns the shapes from one pass with it.
        fast: whether a hand-written accelerator may replace the plain rule. It computes the same, up to rounding.
        options: settings of the rule.
    """
    from kymograph.rules.base import Setup
    from kymograph.rules.fast import accelerated

    rule: Rule = RULES.load(name)(net, Setup(loss, generator, example), **options)
    return accelerated(rule, name) if fast else rule
