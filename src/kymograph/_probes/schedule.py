"""Which steps of a training are measured: every so many, or as many as a share of the time allows."""

from __future__ import annotations

import math
import statistics
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from kymograph._errors import KymographError

_REMEMBERED = 9
"""How many step times of each kind the schedule remembers."""


class Schedule:
    """Decides which steps are measured.

    Without a budget these are the multiples of ``every``; if the step number skips one, the next step that there is.
    With one, e.g. 0.05, the interval is at least ``every`` and long enough that measuring adds at most that share to
    the training time: the median extra time of a measured step, spread over the interval, stays below it. Times are
    wall-clock times of whole steps, and do not include work that an accelerator does later.
    """

    def __init__(self, every: int, budget: float | None = None, clock: Callable[[], float] = time.perf_counter) -> None:
        if isinstance(every, bool) or not isinstance(every, int) or every < 1:
            raise KymographError(f"every must be a whole number of at least 1, not {every!r}")
        if budget is not None and not 0 < budget < math.inf:
            raise KymographError(f"budget must be a positive share of the training time, e.g. 0.05, not {budget!r}")
        self.every, self.budget = every, budget
        # The first measured step also pays for one-time set-up, and is compared with steps that are not measured.
        self.interval = every if budget is None else max(every, 2)
        self._clock = clock
        self._next: int | None = None
        self._seen: int | None = None  # the last step
        self._measured: deque[float] = deque(maxlen=_REMEMBERED)
        self._others: deque[float] = deque(maxlen=_REMEMBERED)
        self._first = True
        self._started = 0.0
        self.agreed = False
        """Whether several ranks agree on the interval: it is then only `proposed` here, and changed for all of them."""
        self.proposed = self.interval

    @property
    def constant(self) -> bool:
        """Whether every step is measured."""
        return self.every == 1 and self.budget is None

    def due(self, step: int) -> bool:
        """Returns whether ``step`` is to be measured."""
        if self.budget is None:
            skipped = self._seen is not None and step // self.every > self._seen // self.every
            return skipped or step % self.every == 0
        return self._next is None or step >= self._next

    def begin(self) -> None:
        """Records the start of a step."""
        if self.budget is not None:
            self._started = self._clock()

    def end(self, step: int, measured: bool) -> None:
        """Records the end of ``step``, and sets the interval."""
        self._seen = step
        if self.budget is None:
            return
        seconds = self._clock() - self._started
        if not measured:
            self._others.append(seconds)
        elif self._first:
            self._first = False
        else:
            self._measured.append(seconds)
        if measured:
            self._set_interval()
            self._next = step + self.interval

    def state(self) -> dict[str, Any]:
        """Returns when the next measured step is due, and the step times behind it."""
        return {
            "interval": self.interval,
            "next": self._next,
            "seen": self._seen,
            "measured": list(self._measured),
            "others": list(self._others),
            "first": self._first,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `state` returned."""
        self.interval, self._next, self._first = state["interval"], state["next"], state["first"]
        self.proposed = self.interval
        self._seen = state.get("seen")  # states of earlier versions have none
        self._measured.extend(state["measured"])
        self._others.extend(state["others"])

    def _set_interval(self) -> None:
        usual = statistics.median(self._others) if self._others else 0.0
        if self.budget is not None and self._measured and usual > 0:
            extra = statistics.median(self._measured) - usual
            # At least 2: there must be steps that are not measured, to compare with.
            self.proposed = max(self.every, 2, math.ceil(extra / (self.budget * usual)))
            if not self.agreed:
                self.interval = self.proposed
