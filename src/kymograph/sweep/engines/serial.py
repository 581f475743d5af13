"""Computes the stacks in this process, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kymograph.sweep.carry_out import check_here, workplace
from kymograph.sweep.compute import Follower, RunOutcome, compute
from kymograph.sweep.devices import choose_device, import_torch
from kymograph.sweep.orders import Order

PART = {"about": "this process, one stack after the other", "order": 1}


class Engine:
    """Computes in this process, with one worker whatever the number asked for."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = 1

    def run(self, orders: Sequence[Order], follower: Follower) -> Iterator[list[RunOutcome]]:
        """Yields each order's outcomes in turn."""
        torch = import_torch()
        before = torch.get_num_threads()
        try:
            for order in orders:
                check_here(order)
                study = order.load_study()
                torch.set_num_threads(study.threads or before)
                yield compute(study, order.stack, workplace(order, choose_device(order.device), follower))
        finally:
            torch.set_num_threads(before)
