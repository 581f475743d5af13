"""Is the rare class learned, how well while it is being learned, and after how many steps?

The script looked at the final accuracy on its training data. That is 0 where the class cannot be learned and 0.9 in
almost every run where it can, so it distinguishes nothing. Measured here, on held-out samples, is a quantity that
changes with every step: the probability given to the rare class. With four tokens, accuracy takes few values, and a
quarter of all untrained networks classify the rare token correctly by luck.
"""

from __future__ import annotations

import numpy as np

EARLY_RARE_SAMPLES = 20
"""The number of rare samples seen by the end of *early* training: the same exposure at every imbalance.

Two epochs at 99:1, a tenth of an epoch at 80:20. Chosen in pilot runs at other seeds than those of the study, with both
arms pooled: with 10, some runs at 99:1 had not begun to learn (0.5 % of what there is to learn); with 50, runs at
80:20 spent most of the time at the ceiling. With 20, none of 400 runs was within 1 % of the floor or the ceiling."""
LEARNED = 0.75
"""The share of the Bayes predictor's accuracy at which the rare class counts as learned.

High enough that luck does not pass for learning: one untrained network in 2,000 is above it. With half the Bayes
predictor's accuracy it would be 4 %, so that in a third of all sets of ten seeds, some network would have learned the
class before training. In the pilot runs, every run reached the level and none started above it."""


def learning_analysis(
    steps: np.ndarray, rare_prob: np.ndarray, rare_count: np.ndarray, bayes: float
) -> dict[str, float]:
    """Returns how well the rare class is predicted while it is being learned, and when it is learned.

    * ``early_rare_prob``: the mean of ``rare_prob`` over training until ``EARLY_RARE_SAMPLES`` rare samples were
      trained on (or the run ends);
    * ``early_rare_prob_share``: the same as a share of the Bayes predictor's accuracy, so that 0 is the floor and 1 the
      ceiling;
    * ``rare_steps_to_learn``: the first measured step at which ``rare_prob`` is at least ``LEARNED`` times the Bayes
      predictor's accuracy; NaN if it never is, or if there is nothing to learn.

    Args:
        steps: the steps at which predictions were read, shape (readings,).
        rare_prob: the mean probability of the rare class at held-out rare samples, shape (readings,).
        rare_count: rare samples in each step's batch, shape (all steps,).
        bayes: the Bayes predictor's accuracy on the held-out rare samples.
    """
    seen = np.cumsum(rare_count)
    early = float(rare_prob[steps <= np.searchsorted(seen, EARLY_RARE_SAMPLES)].mean())
    return {
        "early_rare_prob": early,
        "early_rare_prob_share": early / bayes if bayes > 0 else np.nan,
        "rare_steps_to_learn": steps_to_reach(steps, rare_prob, LEARNED * bayes) if bayes > 0 else np.nan,
    }


def excess_loss(rare_loss: float, rare_frequency: float) -> float:
    """Returns a cross-entropy at rare samples minus that of a predictor that knows only the classes' frequencies.

    Below 0, the rare class is predicted better than by its frequency. NaN if there is no rare class.

    >>> round(excess_loss(5.0, 0.01), 3)
    0.395
    """
    return rare_loss + float(np.log(rare_frequency)) if rare_frequency > 0 else np.nan


def steps_to_reach(steps: np.ndarray, values: np.ndarray, level: float) -> float:
    """Returns the first of ``steps`` whose value is at least ``level``; NaN, not 0, if none is.

    >>> steps_to_reach(np.array([0, 10, 20]), np.array([0.1, 0.6, 0.4]), 0.5)
    10.0
    """
    reached = np.flatnonzero(values >= level)
    return float(steps[reached[0]]) if len(reached) else np.nan
