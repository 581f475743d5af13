"""Learning rules, which fill the gradients.

A module declares its rules in ``PARTS`` (or one, built by ``build``, in ``PART``) with what must be known before torch
is loaded: a rule's ``options``, the rule that normalises its signal (``normalised``), if there is one, whether it
``acts_on`` ``blocks`` (so that `make` cuts the network) or ``layers``, whether it supports networks of replicas
(``replicas``), and whether it ``learns`` its feedback from an optimizer's steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kymograph.parts import Registry

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import nn

    from kymograph_studies.rules.base import Rule
    from kymograph_studies.rules.losses import Loss


RULES = Registry("kymograph.rules", "kymograph_studies.rules", "build")


def make(
    name: str,
    net: nn.Module,
    *,
    loss: Loss | None = None,
    generator: torch.Generator | None = None,
    example: Any = None,
    blocks: Sequence[str] | None = None,
    fast: bool = True,
    **options: Any,
) -> Rule:
    """Returns the rule called ``name`` on ``net``.

        rule = make("fa", model, loss=cross_entropy, generator=kymograph.generator(42, "feedback"))
        rule.attach(optimizer)  # for rules that learn their feedback; does nothing for others
        optimizer.zero_grad()
        credit = rule.backward(x, y)
        optimizer.step()

    Args:
        net: any module, which a rule that hands credit to blocks cuts (see `kymograph_studies.models.cut`), or a
            network of replicas.
        loss: maps (outputs, targets) to one loss per replica, or to a scalar. Default: cross-entropy.
        generator: the generator of random feedback.
        example: a small batch of inputs, which determines shapes and plans before training. Default: guessed from the
            first layer, where a rule needs one.
        blocks: names of the submodules that are blocks, for rules that act on blocks; other rules ignore them.
        fast: whether a hand-written accelerator, equal up to rounding, may replace the plain rule.
        options: settings of the rule.
    """
    from kymograph_studies.rules.base import Setup
    from kymograph_studies.rules.fast import accelerated

    if RULES.part(name).properties.get("acts_on") == "blocks":
        from kymograph_studies.models.cut import cut_faithfully

        net = cut_faithfully(net, blocks, example)
    rule: Rule = RULES.load(name)(net, Setup(loss, generator, example), **options)
    return accelerated(rule, name) if fast else rule
