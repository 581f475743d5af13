"""How a rule follows an optimizer: when a step is taken, and with which learning rate and weight decay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch import nn

from kymograph.errors import KymographError

if TYPE_CHECKING:
    from kymograph.rules.base import Rule

MISSED = 3
"""Unreported updates before a rule raises: a single one may mean that other weights were loaded."""


class Rates(NamedTuple):
    """How an optimizer moves one parameter."""

    lr: float
    decay: float
    """The weight decay, which is multiplied by the learning rate, in SGD as in AdamW."""


class FollowedOptimizer:
    """The optimizer that a rule follows, if any, and the updates that it may have missed."""

    def __init__(self) -> None:
        self.optimizer: Any = None
        self._updates, self._missed, self._version = 0, 0, -1

    def attach(self, rule: Rule, optimizer: Any) -> None:
        """Makes ``rule`` follow ``optimizer``: one of torch's, or one of ours, whose loop calls the rule itself."""
        if self.optimizer is optimizer:
            return
        if self.optimizer is not None:
            raise KymographError("this rule already follows another optimizer; make a new rule")
        self.optimizer = optimizer
        if hasattr(optimizer, "register_step_post_hook"):  # not isinstance: torch.optim takes a second to import

            def after(*_: Any) -> None:
                rule.after_update(self._updates)
                self._updates += 1

            optimizer.register_step_pre_hook(lambda *_: rule.before_update())
            optimizer.register_step_post_hook(after)

    def rates(self, parameter: nn.Parameter, title: str) -> Rates | None:
        """Returns how the optimizer moves ``parameter``; None if it does not. Raises if there is no optimizer."""
        if self.optimizer is None:
            raise KymographError(
                f"{title} learns its feedback from the steps that are taken; call rule.attach(optimizer) first"
            )
        groups = getattr(self.optimizer, "param_groups", None)
        if groups is None:
            return Rates(self.optimizer.lr, self.optimizer.weight_decay)
        for group in groups:
            if any(own is parameter for own in group["params"]):
                return Rates(float(group["lr"]), float(group.get("weight_decay", 0.0)))
        return None

    def note_update(self) -> None:
        """Records that an update was reported to the rule."""
        self._missed = 0

    def check(self, net: nn.Module, title: str) -> None:
        """Raises if the weights keep changing without reports to the rule, which would make it a different rule."""
        version = sum(own._version for own in net.parameters())
        if self._version not in (-1, version):
            self._missed += 1
        self._version = version
        if self._missed >= MISSED:
            raise KymographError(
                f"{title} changes its feedback with every update; call rule.attach(optimizer) once, or "
                "rule.after_update(step) after each step"
            )
