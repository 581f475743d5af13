"""What the depth script says about plain and residual stacks, as claims, and what becomes of it in repaired ones."""

from __future__ import annotations

from kymograph.claims.claim import Check, Claim, Measure, Quantity

VANISH = "script 003, gradient figure: gradients of the plain stack vanish towards its first layers"
BETTER = "script 003, headline: residual connections let a deep stack learn the identity"
LEVEL = "script 003, gradient figure: residual connections keep gradients level over depth"


def claims() -> list[Claim]:
    """Returns the script's three findings, then the repairs of the residual stack on both tasks."""
    return [
        _vanish("script", "identity"),
        _better("script", "residual", "identity", "residual connections train better"),
        _level("script", "residual", "identity"),
        _vanish("repaired", "orthogonal"),
        _better("repaired", "residual/scaled", "identity", "scaled residual branches train better, identity"),
        _better("repaired", "residual/scaled", "orthogonal", "scaled residual branches train better, orthogonal map"),
        _better("repaired", "residual/zero", "identity", "zero-initialised branches train better, identity"),
        _better("repaired", "residual/zero", "orthogonal", "zero-initialised branches train better, orthogonal map"),
        _level("repaired", "residual/scaled", "orthogonal"),
    ]


def _vanish(setup: str, task: str) -> Claim:
    plain = Quantity("plain", Measure("final_backward_gain"), {"task": task})
    return Claim(
        "gradients of the plain stack vanish with depth", "depth", setup,
        f"after training on the {task} task the gradient shrinks by more than 2 % per layer on its way down",
        VANISH, plain, 1.0, "less", 1.02, "log ratio",
    )  # fmt: skip


def _level(setup: str, arm: str, task: str) -> Claim:
    gain = Quantity(arm, Measure("final_backward_gain"), {"task": task})
    return Claim(
        "residual connections keep gradients level", "depth", setup,
        f"after training on the {task} task {arm}'s gradient does not grow by 5 % or more per layer on its way down",
        LEVEL, gain, 1.0, "not greater", 1.05, "log ratio",
    )  # fmt: skip


def _better(setup: str, arm: str, task: str, name: str) -> Claim:
    where = {"task": task}
    loss = Measure("mean_last_50_loss")
    start = Check(
        "the task is not solved at the start", Quantity(arm, Measure("initial_loss"), where), least=1e-6,
    )  # fmt: skip
    return Claim(
        name, "depth", setup, f"{arm} ends at a lower loss than plain on the {task} task, by more than 10 %",
        BETTER, Quantity(arm, loss, where), Quantity("plain", loss, where), "less", 1.1, "log ratio", checks=(start,),
    )  # fmt: skip
