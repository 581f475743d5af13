"""Progress of orders that are computed elsewhere, read from the heartbeats in the output directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from kymograph.runs.spec import slug
from kymograph.sweep.compute import Follower
from kymograph.sweep.heartbeat import read_beats
from kymograph.sweep.orders import Order
from kymograph.sweep.plan import Stack

EVERY = 1.0
"""Seconds between two readings."""


class BeatProgress:
    """Reports to a follower how many steps the workers have done, according to their heartbeats."""

    def __init__(self, orders: Sequence[Order], follower: Follower) -> None:
        self._follower = follower
        self._order_of = {run: number for number, order in enumerate(orders) for run in missing_runs(order.stack)}
        self._steps = [order.stack.steps for order in orders]
        self._seen = [0] * len(orders)
        self._directories = {Path(one.directory) / slug(one.stack.specs[0].study) for one in orders}

    def update(self) -> None:
        """Reads the heartbeats."""
        for directory in self._directories:
            for beat in read_beats(directory, time.time()):
                number = next((self._order_of[run] for run in beat.runs if run in self._order_of), None)
                if number is not None:
                    self._tick(number, min(beat.done, self._steps[number]))
                    if beat.words:
                        self._follower.say(beat.words)

    def ended(self, number: int) -> None:
        """Counts the steps that no heartbeat reported: a short stack ends between two readings."""
        self._tick(number, self._steps[number])

    def _tick(self, number: int, done: int) -> None:
        if done > self._seen[number]:  # a stack that is computed again, after its worker died, starts at 0
            self._follower.tick(done - self._seen[number])
            self._seen[number] = done


def missing_runs(stack: Stack) -> list[str]:
    """Returns the ids of a stack's missing runs."""
    return [spec.id for spec, missing in zip(stack.specs, stack.missing, strict=True) if missing]
