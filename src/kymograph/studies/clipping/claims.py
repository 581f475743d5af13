"""What the clipping script says clipping does, as claims: in its own data, and where the rare class can be learned."""

from __future__ import annotations

from kymograph.claims.claim import Check, Claim, Measure, Quantity

PREDICTION_2 = "script 000, prediction 2: without clipping the representation's dimension wanders"
PREDICTION_4 = "script 000, prediction 4: rare samples are learned at least as well with clipping"
STABILITY = "script 000, first panels and summary: clipping steadies the weight norm"
SPIKES = "script 000, announced in its title and never measured: gradients spike at rare samples"


def claims() -> list[Claim]:
    """Returns four findings, each in the script's own set-up and in the repaired one."""
    return [*_findings("script", ""), *_findings("repaired", "learnable/")]


def _findings(setup: str, prefix: str) -> list[Claim]:
    extreme, moderate = f"{prefix}extreme", f"{prefix}moderate"
    # std(weight_norm) over a run measures how far the norm travels; the repaired claim asks about its jitter.
    steadiness = "weight_norm_std" if setup == "script" else "weight_norm_roughness"

    def both(name: str, imbalance: str) -> tuple[Quantity, Quantity]:
        return Quantity(f"{imbalance}/clip", Measure(name)), Quantity(f"{imbalance}/no_clip", Measure(name))

    def fired(imbalance: str) -> Check:
        return Check("clipping fired", Quantity(f"{imbalance}/clip", Measure("clip_fraction")), least=0.0, strict=True)

    learnable = Check(
        "the rare class can be learned",
        Quantity(f"{moderate}/no_clip", Measure("bayes_rare_acc")),
        least=0.0,
        strict=True,
    )
    left, right = both("effective_dim_std", extreme)
    acc_left, acc_right = both("final_rare_acc", moderate)
    norm_left, norm_right = both(steadiness, extreme)
    return [
        Claim(
            "clipping lowers the variation of the effective dimension", "clipping", setup,
            "the embedding's effective dimension varies less over training with clipping than without",
            PREDICTION_2, left, right, "less", 1.1, "log ratio", checks=(fired(extreme),),
        ),
        Claim(
            "rare accuracy is not worse under clipping", "clipping", setup,
            "final accuracy on the rare class (80:20) is not lower by 0.05 or more with clipping than without",
            PREDICTION_4, acc_left, acc_right, "not less", 0.05, checks=(fired(moderate), learnable),
        ),
        Claim(
            "clipping steadies the weight norm", "clipping", setup,
            f"{steadiness} is lower with clipping than without",
            STABILITY, norm_left, norm_right, "less", 1.1, "log ratio", checks=(fired(extreme),),
        ),
        Claim(
            "gradient spikes sit at rare samples", "clipping", setup,
            "without clipping the gradient at rare samples is more than twice that at common ones",
            SPIKES, Quantity(f"{extreme}/no_clip", Measure("rare_grad_norm")),
            Quantity(f"{extreme}/no_clip", Measure("common_grad_norm")), "greater", 2.0, "log ratio",
        ),
    ]  # fmt: skip
