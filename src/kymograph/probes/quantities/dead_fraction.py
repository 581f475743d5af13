"""Dead fraction: the share of units that are zero for the whole batch."""

from __future__ import annotations

import numpy as np

PART = {
    "about": "share of units after a ReLU that are exactly 0 for every sample of the batch",
    "unit": "1",
    "log": False,
    "level": "standard",
    "order": 21,
    "from": ["live_units", "unit_count"],
}


def dead_fraction(live: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Returns the share of ``count`` units that are not among the ``live`` ones.

    A dead unit is exactly 0 for every sample, and at every position if it is a channel. Only nn.ReLU and nn.ReLU6 are
    measured; other activations are not exactly 0. A unit that is dead on one batch can fire on the next, so larger
    batches say more. If a layer is called several times, the units of each call are counted.

    >>> dead_fraction(np.array([3.0]), np.array([4.0]))
    array([0.25])
    """
    return 1.0 - live / count
