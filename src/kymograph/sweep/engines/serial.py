"""This process computes the stacks, one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from kymograph.sweep.compute import Follower, RunOutcome, Workplace, compute
from kymograph.sweep.devices import choose_device, import_torch
from kymograph.sweep.orders import Order

PART = {"about": "this process, one stack after the other", "order": 1}


class Engine:
    """Computes in this process; there is one worker, whatever the number asked for."""

    def __init__(self, workers: int = 1) -> None:
        self.workers = 1

    def run(self, orders: Sequence[Order], follower: Follower) -> Iterator[list[RunOutcome]]:
        """Yields each order's outcomes in turn."""
        torch = import_torch()
        before = torch.get_num_threads()
        try:
            for order in orders:
                study = order.load_study()
                torch.set_num_threads(study.threads or before)
                yield compute(study, order.stack, workplace(order, choose_device(order.device), follower))
        finally:
            torch.set_num_threads(before)


def workplace(order: Order, device: str, follower: Follower) -> Workplace:
    """Returns where an order is computed."""
    data_dir = None if order.data_dir is None else Path(order.data_dir)
    return Workplace(device, follower, Path(order.directory), data_dir, order.log)
