"""What the calibration script and its paper say about credit and gradient, as claims; each cosine against its null.

The null of fresh matrices and those of permuted ones are centred near 0 for any network, so the claims that compare
with their means differ little from each other. The last two claims ask for more: a cosine beyond what 95 % of the
permuted matrices give, seed by seed. They were added after the runs on CIFAR-10, whose verdicts call them post hoc.

Margin. 0.02 is between one and two standard deviations of the deep mean over draws of fresh matrices (0.012 on
CIFAR-10), so that a smaller effect would be lost in a single network's null.
"""

from __future__ import annotations

from kymograph import Check, Claim, Measure, Side

PENALISED = "script 002, lines 4-9 and 138-140: with a penalty the deep cosine is real; fresh feedback gives about 0"
VANILLA = "arXiv:2606.21126, stated by no script: without a penalty the deep layers' cosine is about 0"
LAYER_0 = "arXiv:2606.21126, stated by no script: without a penalty layer 0 has a cosine of about +.42"
MARGIN = 0.02


def claims() -> list[Claim]:
    """Returns the script's finding against fresh matrices, two of the paper's, then four against permuted matrices."""
    return [
        _deep("script", "penalised", "greater", "penalised DFA's deep cosine exceeds its null", PENALISED,
              "null_fresh"),
        _deep("script", "vanilla", "not greater", "vanilla DFA's deep cosine does not exceed its null", VANILLA,
              "null_fresh"),
        Claim(
            "layer 0's cosine exceeds its null", "calibration",
            f"under vanilla DFA the cosine at h_0 exceeds the mean of fresh matrices by more than {MARGIN:g}",
            Side("vanilla", Measure("layer0_cosine")),
            Side("vanilla", Measure("null_fresh", "mean", "h_0")), "greater", MARGIN, checks=(_control("vanilla"),),
            setup="script", origin=LAYER_0,
        ),
        _deep("repaired", "penalised", "greater", "the deep cosine survives matrices with permuted rows", PENALISED,
              "null_rows"),
        _deep("repaired", "penalised", "greater", "the deep cosine survives matrices with permuted classes", PENALISED,
              "null_columns"),
        _beyond("the deep cosine is beyond 95 % of matrices with permuted rows", "null_rows"),
        _beyond("the deep cosine is beyond 95 % of matrices with permuted classes", "null_columns"),
    ]  # fmt: skip


def _deep(setup: str, arm: str, direction: str, name: str, origin: str, null: str) -> Claim:
    what = "exceeds" if direction == "greater" else "does not exceed"
    return Claim(
        name, "calibration",
        f"the deep layers' mean cosine under {arm} DFA {what} the mean of {null} by {MARGIN:g} or more",
        Side(arm, Measure("deep_cosine")), Side(arm, Measure(null, "mean", "deep")),
        direction, MARGIN, checks=(_control(arm), _above_floor(arm)), setup=setup, origin=origin,  # type: ignore[arg-type]
    )  # fmt: skip


def _beyond(name: str, null: str) -> Claim:
    return Claim(
        name, "calibration",
        f"the deep layers' mean cosine under penalised DFA exceeds the 95th percentile of {null}",
        Side("penalised", Measure("deep_cosine")),
        Side("penalised", Measure(null, "95th percentile", "deep")), "greater", 0.0,
        checks=(_control("penalised"), _above_floor("penalised")), setup="repaired", origin=PENALISED,
    )  # fmt: skip


def _control(arm: str) -> Check:
    return Check("the gradient's cosine with itself is 1", Side(arm, Measure("control_cosine")), 0.999, 1.001)


def _above_floor(arm: str) -> Check:
    return Check("gradients are above the numeric floor", Side(arm, Measure("deep_below_floor")), most=0.0)
