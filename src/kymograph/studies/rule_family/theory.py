"""When Kolen-Pollack's feedback should have converged to the weights (arXiv:1904.05391).

B takes the same steps as W, and both decay by the factor 1 - lr wd at every step. So B - W shrinks by that factor,
whatever is learned. At the start, W and B are independent and of the same norm, so the norm of B - W is sqrt(2) times
that of W. If W keeps its norm, the sine of the angle between them is at most sqrt(2) (1 - lr wd)^t.
"""

from __future__ import annotations

import math

DEGREES = 10.0
"""The angle at which B counts as converged to W: the update then achieves 98 % of the exact one's effect in a layer."""


def steps_to_angle(lr: float, wd: float, degrees: float = DEGREES) -> int | None:
    """Returns the first step after which the angle should be at most ``degrees``; None if nothing decays.

    >>> steps_to_angle(0.1, 0.1)
    209
    """
    shrinking = 1 - lr * wd
    if not 0 < shrinking < 1:
        return None
    return math.ceil(math.log(math.sin(math.radians(degrees)) / math.sqrt(2)) / math.log(shrinking))
