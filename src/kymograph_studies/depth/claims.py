"""The depth script's findings on plain and residual stacks, as claims, and their repaired versions.

The script states two findings (its lines 4 and 5): gradients of deep plain stacks vanish, and residual connections
solve that. It prints losses and the range of the gradient norms, and draws loss, gradient, mean and standard deviation;
about the last two it says nothing, so there are no claims about them.
"""

from __future__ import annotations

from kymograph import Check, Claim, Measure, Side

VANISH = "script 003, line 4 and gradient figure (line 238): gradients of a deep plain stack vanish on their way down"
LEVEL = "script 003, line 5 and gradient figure (line 238): gradients of a residual stack do not change with depth"
IDLE = "script 003, line 4 and loss figure (line 215): a deep plain stack does not learn"
BETTER = "script 003, line 5 and loss figure (line 215), losses of lines 319 and 324: residual connections train better"
LEARN = "script 003, lines 2 and 5, fresh losses of lines 335 and 336: residual connections let a deep stack learn"

LEVEL_MARGIN = 1.05
"""Gradients are level if they change by less than this factor per layer, and vanish if they shrink by more.

Over the script's 19 steps from layer to layer it amounts to a factor of 2.5, less than half a decade on the figure's
logarithmic axis. One margin for both claims leaves no gap between "level" and "vanishing"."""
LOSS_MARGIN = 1.1
"""Losses count as different if they differ by more than this factor.

The choice of the 64 samples in a batch changes the null predictor's loss by 1.4 % (one standard deviation; 0.35 % on
fresh data), so a tenth is several times the noise of any loss compared here."""
LEARNED_MARGIN = 2.0
"""A stack has learned its task if its loss is below the null predictor's by more than this factor.

Half of that loss is the floor of any stack that ends in a ReLU, because it cannot output negative numbers. A skip past
the last ReLU shows its value only below that floor."""

SCALED, ZERO, PRENORM = "residual/scaled", "residual/zero", "residual/prenorm"
BEFORE_RELU, ON_STREAM = Measure("final_pre_backward_gain"), Measure("final_backward_gain")
"""The gradient's gain per layer on its way down: before the ReLUs, as in the script, and on the stream itself."""


def claims() -> list[Claim]:
    """Returns the script's findings in its own quantities and set-up, then repaired: other quantities, arms, task."""
    return [
        _vanish("script", "gradients of the plain stack vanish with depth", BEFORE_RELU, "identity"),
        _level("script", "residual connections keep gradients level", "residual", BEFORE_RELU, "identity"),
        _idle("script", "the plain stack learns nothing", "identity"),
        _better("script", "residual connections train better", "residual", "final_loss", "identity"),
        _learn("script", "residual connections let a deep stack learn the identity", "residual", "identity"),
        _vanish("repaired", "gradients on the plain stream vanish with depth", ON_STREAM, "orthogonal"),
        # The vanishing gradient problem concerns networks that have yet to learn.
        _vanish(
            "repaired", "gradients on the plain stream vanish before training", Measure("initial_backward_gain"),
            "orthogonal",
        ),
        _level("repaired", "scaled branches keep gradients level before the ReLU", SCALED, BEFORE_RELU, "orthogonal"),
        _level("repaired", "scaled branches keep gradients level on the stream", SCALED, ON_STREAM, "orthogonal"),
        # Scaled branches do worse than the null predictor on this task; zero branches learn it.
        _level("repaired", "zero branches keep gradients level before the ReLU", ZERO, BEFORE_RELU, "orthogonal"),
        _level("repaired", "zero branches keep gradients level on the stream", ZERO, ON_STREAM, "orthogonal"),
        # On fresh data, because the training loss also rewards memorising the 1,024 samples.
        _better("repaired", "scaled branches do better, identity", SCALED, "fresh_loss", "identity"),
        _better("repaired", "scaled branches do better, orthogonal map", SCALED, "fresh_loss", "orthogonal"),
        _better("repaired", "zero branches do better, identity", ZERO, "fresh_loss", "identity"),
        _better("repaired", "zero branches do better, orthogonal map", ZERO, "fresh_loss", "orthogonal"),
        _learn("repaired", "scaled branches let a deep stack learn the identity", SCALED, "identity"),
        _learn("repaired", "scaled branches let a deep stack learn an orthogonal map", SCALED, "orthogonal"),
        _learn("repaired", "pre-norm branches let a deep stack learn the identity", PRENORM, "identity"),
        _learn("repaired", "pre-norm branches let a deep stack learn an orthogonal map", PRENORM, "orthogonal"),
        _learn("repaired", "zero branches let a deep stack learn an orthogonal map", ZERO, "orthogonal"),
    ]  # fmt: skip


def _vanish(setup: str, name: str, gain: Measure, task: str) -> Claim:
    plain = Side("plain", gain, {"task": task})
    when = "before" if gain.name.startswith("initial") else "after"
    return Claim(
        name, "depth",
        f"{when} training on the {task} task plain's gradient {_where(gain)} shrinks by more than x{LEVEL_MARGIN:g} "
        "per layer on its way down",
        plain, 1.0, "less", LEVEL_MARGIN, "log ratio", setup=setup, origin=VANISH,
    )  # fmt: skip


def _level(setup: str, name: str, arm: str, gain: Measure, task: str) -> Claim:
    return Claim(
        name, "depth",
        f"after training on the {task} task {arm}'s gradient {_where(gain)} neither grows nor shrinks by "
        f"x{LEVEL_MARGIN:g} or more per layer on its way down",
        Side(arm, gain, {"task": task}), 1.0, "equal", LEVEL_MARGIN, "log ratio",
        setup=setup, origin=LEVEL,
    )  # fmt: skip


def _idle(setup: str, name: str, task: str) -> Claim:
    return Claim(
        name, "depth",
        f"after training on the {task} task plain's loss on fresh data is that of the null predictor, within "
        f"x{LOSS_MARGIN:g}",
        _over_null("plain", task), 1.0, "equal", LOSS_MARGIN, "log ratio", setup=setup, origin=IDLE,
    )  # fmt: skip


def _better(setup: str, name: str, arm: str, loss: str, task: str) -> Claim:
    ours, plain = (Side(which, Measure(loss), {"task": task}) for which in (arm, "plain"))
    # Plain learns nothing, so comparing it with an arm that learned nothing either is meaningless. An arm that does
    # worse than the null predictor is answered by `_learn`, which it refutes.
    learned = Check(
        f"{arm} learned something, i.e. beats the null predictor on fresh data",
        _over_null(arm, task), most=1.0, strict=True,
    )  # fmt: skip
    return Claim(
        name, "depth",
        f"{arm} ends at a lower {loss} than plain on the {task} task, by more than x{LOSS_MARGIN:g}",
        ours, plain, "less", LOSS_MARGIN, "log ratio", checks=(_unsolved(arm, task), learned),
        setup=setup, origin=BETTER,
    )  # fmt: skip


def _learn(setup: str, name: str, arm: str, task: str) -> Claim:
    return Claim(
        name, "depth",
        f"after training on the {task} task {arm}'s loss on fresh data is below the null predictor's by more than "
        f"x{LEARNED_MARGIN:g}",
        _over_null(arm, task), 1.0, "less", LEARNED_MARGIN, "log ratio", checks=(_unsolved(arm, task),),
        setup=setup, origin=LEARN,
    )  # fmt: skip


def _over_null(arm: str, task: str) -> Side:
    return Side(arm, Measure("fresh_loss_over_null"), {"task": task})


def _unsolved(arm: str, task: str) -> Check:
    start = Side(arm, Measure("initial_loss"), {"task": task})
    return Check("the task is not solved at the start", start, least=1e-6)


def _where(gain: Measure) -> str:
    return "before the ReLU" if gain == BEFORE_RELU else "on the stream"
