"""When Kolen-Pollack's feedback should have turned into its weights (arXiv:1904.05391).

B takes the step of W, and both decay by the factor 1 - lr wd with every step. So B - W shrinks by that factor, whatever
is learned. At the start W and B are independent and of one size, and the length of B - W is sqrt(2) times that of W;
if W keeps its length, the sine of the angle between them is at most sqrt(2) (1 - lr wd)^t.
"""

from __future__ import annotations

import math

DEGREES = 10.0
"""The angle at which B counts as turned into W: the update keeps 98 % of what the exact one would do in a layer."""


def steps_to_angle(lr: float, wd: float, degrees: float = DEGREES) -> int | None:
    """Returns the first step after which the angle should be at most ``degrees``; None if nothing decays.

    >>> steps_to_angle(0.1, 0.1)
    209
    """
    shrinking = 1 - lr * wd
    if not 0 < shrinking < 1:
        return None
    return math.ceil(math.log(math.sin(math.radians(degrees)) / math.sqrt(2)) / math.log(shrinking))
