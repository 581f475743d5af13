"""What the clipping script says clipping does, as claims: in its own quantities and data, then in repaired ones.

*Repaired* are the data (the arms ``learnable/*``, whose rare class can be learned), and the quantities that measured
something else: the standard deviation of a series with a trend, and an accuracy that is 0 or 0.9 in every run.

*Margins* come from what the quantities mean, not from what came out:

- x1.1 for the variation of a series: the script only asks for "more", and a tenth is the least that is visible in its
  figure.
- 0.16 dimensions for a collapse: the standard deviation of the effective dimension among initial embeddings (its mean
  is 2.71), i.e. what another draw of the weights would change.
- 0.05 for an accuracy: five answers in a hundred.
- 100 steps for a delay at 99:1: the mean distance between two rare samples, so that a delay costs at least one of them.
- 0.69 nats (log 2) for the loss at rare samples: giving the rare class twice its frequency is the least that would
  count as having learned it.
- x2 for gradients at rare samples: without clipping, such a step moves the weights further than two common ones.

*Manipulation checks* are true by construction if the arms work as intended, and are not findings.

*How many.* Seventeen findings; ten seeds can decide a family of twenty-five, so there is room for the user's claims.

*Seen before.* When these claims were made, earlier runs at the study's first ten seeds had been examined. Among other
things, they showed that clipping delays the rare class by some 400 steps. Other seeds (``--seeds``) test the claims
afresh.
"""

from __future__ import annotations

from kymograph import Check, Claim, Measure, Side
from kymograph_studies.clipping import RATIOS

VARIATION = "script 000, lines 491-495 (prediction 2): the effective dimension varies more without clipping"
COLLAPSE = "script 000, line 491 (prediction 2), fourth row of panels: without clipping representations collapse"
PREDICTION_4 = "script 000, lines 497-501 (prediction 4): rare samples are learned at least as well with clipping"
STABILITY = "script 000, lines 6-7 and 503-505, first row of panels: clipping steadies the weight norm"
LARGEST_CHANGE = "script 000, lines 506-507, second row of panels: clipping limits the change of the weight norm"
SPIKES = "script 000, lines 7 and 13: gradients spike at rare samples; announced there and never measured"
NOT_LEARNED = "script 000, line 5: with 99:1 neither model learns the rare class"

DIMENSIONS = 0.16
TWICE_AS_LIKELY = 0.69
"""log 2, in nats."""
RARE_SAMPLE_EVERY = 100.0
"""Steps from one rare sample to the next at 99:1, on average."""


def claims() -> list[Claim]:
    """Returns the script's findings at both imbalances as it prints them, in its own set-up, then the repaired one."""
    return [
        *(_steadier_dimension("script", imbalance) for imbalance in RATIOS),
        *(_collapse("script", imbalance) for imbalance in RATIOS),
        *(_final_accuracy(imbalance) for imbalance in RATIOS),
        *(_not_learned("script", arm) for arm in ("no_clip", "clip")),
        *(_steadier_norm("script", imbalance) for imbalance in RATIOS),
        *(_largest_change(imbalance) for imbalance in RATIOS),
        _spikes(),
        *(_steadier_dimension("repaired", imbalance) for imbalance in RATIOS),
        *(_collapse("repaired", imbalance) for imbalance in RATIOS),
        *(_early_probability(imbalance) for imbalance in RATIOS),
        _time_to_learn(),
        *(_not_learned("repaired", arm) for arm in ("no_clip", "clip")),
        *(_steadier_norm("repaired", imbalance) for imbalance in RATIOS),
    ]


def _steadier_dimension(setup: str, imbalance: str) -> Claim:
    name, what = "clipping lowers the variation of the effective dimension", "the embedding's effective dimension"
    return _steadier(setup, imbalance, name, VARIATION, "effective_dim", what)


def _steadier_norm(setup: str, imbalance: str) -> Claim:
    return _steadier(setup, imbalance, "clipping steadies the weight norm", STABILITY, "weight_norm", "the weight norm")


def _steadier(setup: str, imbalance: str, name: str, origin: str, series: str, what: str) -> Claim:
    """A series varies less with clipping.

    Its standard deviation over a run, the script's measure, is mostly its trend; the repaired one is the jitter that is
    left. But clipping shortens the steps, and shorter steps jitter less by construction.
    """
    jitter = setup == "repaired"
    key = f"{series}_roughness" if jitter else f"{series}_std"
    deviation = f"the standard deviation of {what} over a run"
    if jitter:
        deviation = f"the jitter of {what} around its trend (RMS of successive differences)"
    remark = "; clipping shortens the steps, so this checks that it does" if jitter else ""
    return Claim(
        _named(name, imbalance), "clipping",
        f"{deviation} is lower with clipping than without, by more than a tenth{remark}",
        *_arms(setup, imbalance, key), "less", 1.1, "log ratio", checks=(_fired(setup, imbalance),),
        kind="manipulation check" if jitter else None, setup=setup, origin=origin,
    )  # fmt: skip


def _collapse(setup: str, imbalance: str) -> Claim:
    clipped, unclipped = _arms(setup, imbalance, "effective_dim_change")
    return Claim(
        _named("clipping prevents representation collapse", imbalance), "clipping",
        "from the first to the last measurement the embedding's effective dimension falls less with clipping than "
        f"without, by more than {DIMENSIONS}, its standard deviation among initial embeddings",
        clipped, unclipped, "greater", DIMENSIONS,
        checks=(
            _fired(setup, imbalance),
            Check("representations collapse without clipping", unclipped, most=-DIMENSIONS),  # or nothing is prevented
        ),
        setup=setup, origin=COLLAPSE,
    )  # fmt: skip


def _largest_change(imbalance: str) -> Claim:
    return Claim(
        _named("clipping limits the largest change of the weight norm", imbalance), "clipping",
        "the largest absolute change of the weight norm in a step is lower with clipping than without, by more than a "
        "tenth; with clipping it is at most the learning rate times the threshold, so this checks that clipping acts",
        *_arms("script", imbalance, "weight_change_max"), "less", 1.1, "log ratio",
        checks=(_fired("script", imbalance),), kind="manipulation check", setup="script", origin=LARGEST_CHANGE,
    )  # fmt: skip


def _final_accuracy(imbalance: str) -> Claim:
    return Claim(
        _named("rare accuracy is not worse under clipping", imbalance), "clipping",
        "final accuracy on the rare samples of the training data is not lower by 0.05 or more with clipping than "
        "without",
        *_arms("script", imbalance, "final_rare_acc"), "not less", 0.05,
        checks=(_fired("script", imbalance), _learnable("script", imbalance)),
        setup="script", origin=PREDICTION_4,
    )  # fmt: skip


def _early_probability(imbalance: str) -> Claim:
    setup, inside = "repaired", "neither arm sits at the floor or at the ceiling (what the Bayes predictor gets)"
    shares = _arms(setup, imbalance, "early_rare_prob_share")
    return Claim(
        _named("rare accuracy is not worse under clipping", imbalance), "clipping",
        "the probability given to the rare class at held-out rare samples (the accuracy of answers drawn from the "
        "network's probabilities), averaged over training until twenty rare samples were seen, is not lower by 0.05 or "
        "more with clipping than without; at the end nearly every run is at the ceiling",
        *_arms(setup, imbalance, "early_rare_prob"), "not less", 0.05,
        checks=(
            _fired(setup, imbalance), _learnable(setup, imbalance),
            *(Check(inside, share, least=0.01, most=0.99) for share in shares),
        ),
        setup=setup, origin=PREDICTION_4,
    )  # fmt: skip


def _time_to_learn() -> Claim:
    setup, imbalance, learned = "repaired", "extreme", "every run learns the rare class, and none has it from the start"
    times = _arms(setup, imbalance, "rare_steps_to_learn")
    return Claim(
        _named("the rare class is not learned later under clipping", imbalance), "clipping",
        "the steps until the probability given to the rare class at held-out rare samples first reaches three quarters "
        "of the Bayes predictor's accuracy are not more by 100 or more with clipping than without; a rare sample comes "
        "every 100 steps, so a delay beyond the margin costs at least one of them",
        *times, "not greater", RARE_SAMPLE_EVERY,
        checks=(
            _fired(setup, imbalance), _learnable(setup, imbalance),
            *(Check(learned, time, least=0.0, strict=True) for time in times),
        ),
        setup=setup, origin=PREDICTION_4,
    )  # fmt: skip


def _not_learned(setup: str, arm: str) -> Claim:
    # An accuracy of 0 in every seed is a floor; the loss at rare samples shows how far the class is from being learned.
    imbalance, prefix = "extreme", _arm_prefix(setup, "extreme")
    key, where, why = {
        "script": ("rare_excess_loss", "the rare samples", "no token announces it in these data"),
        "repaired": ("heldout_rare_excess_loss", "held-out rare samples", "a token announces it in these data"),
    }[setup]
    how = {"no_clip": "without", "clip": "with"}[arm]
    fired = (_fired(setup, imbalance),) if arm == "clip" else ()
    return Claim(
        f"the rare class is not learned at 99:1 {how} clipping", "clipping",
        f"over the last epoch {how} clipping, the cross-entropy at {where} is not lower by {TWICE_AS_LIKELY} nats "
        f"(log 2) or more than that of a predictor that knows only how frequent the classes are; {why}",
        Side(f"{prefix}/{arm}", Measure(key)), 0.0, "not less", TWICE_AS_LIKELY,
        checks=(*fired, _learnable(setup, imbalance)), setup=setup, origin=NOT_LEARNED,
    )  # fmt: skip


def _spikes() -> Claim:
    arm = "extreme/no_clip"
    return Claim(
        "gradient spikes sit at rare samples", "clipping",
        "without clipping the median gradient norm at rare samples (99:1) is more than twice that at common ones; a "
        "class that is hardly ever right has a large gradient, so this checks that there is something to clip",
        Side(arm, Measure("rare_grad_norm")), Side(arm, Measure("common_grad_norm")),
        "greater", 2.0, "log ratio", kind="manipulation check", setup="script", origin=SPIKES,
    )  # fmt: skip


def _named(name: str, imbalance: str) -> str:
    return f"{name}, {RATIOS[imbalance]}"


def _arm_prefix(setup: str, imbalance: str) -> str:
    return imbalance if setup == "script" else f"learnable/{imbalance}"


def _arms(setup: str, imbalance: str, key: str) -> tuple[Side, Side]:
    """Returns a summary number with clipping and without."""
    prefix = _arm_prefix(setup, imbalance)
    return Side(f"{prefix}/clip", Measure(key)), Side(f"{prefix}/no_clip", Measure(key))


def _fired(setup: str, imbalance: str) -> Check:
    clipped = Side(f"{_arm_prefix(setup, imbalance)}/clip", Measure("clip_fraction"))
    return Check("clipping fired", clipped, least=0.0, strict=True)


def _learnable(setup: str, imbalance: str) -> Check:
    best = Side(f"{_arm_prefix(setup, imbalance)}/no_clip", Measure("bayes_rare_acc"))
    return Check("the rare class can be learned", best, least=0.0, strict=True)
