"""What the author of an engine imports; `docs/howto/add-an-engine.md` adds one.

    >>> from kymograph.engines import *
    >>> class Backwards:  # an `Engine`: it computes in this process, the last order first
    ...     def __init__(self, workers: int) -> None:
    ...         self.workers = workers
    ...     def run(self, orders: list[Order], follower: Follower):
    ...         beats = BeatProgress(orders, follower)
    ...         for number, order in reversed([*enumerate(orders)]):
    ...             answer = carry_out(order, follower)
    ...             if "error" in answer:
    ...                 raise ky.KymographError(answer["error"])
    ...             beats.ended(number)
    ...             yield [RunOutcome(**outcome) for outcome in answer["outcomes"]]
    >>> engine: Engine = Backwards(workers=1)

An engine whose workers are processes starts them with the command `WORKER`, writes them one `Order` per line, and
records the runs of a worker that died with `record_death(order, exit_reason(code))`:

    >>> WORKER[1:], exit_reason(-9), "slurm" in ENGINES.names()
    (('-P', '-m', 'kymograph._sweep.worker'), 'the worker process died (signal 9); run again to retry', True)
"""

from kymograph._sweep.compute import RunOutcome as RunOutcome
from kymograph._sweep.engines.base import (
    BeatProgress as BeatProgress, ENGINES as ENGINES, Engine as Engine, exit_reason as exit_reason,
    record_death as record_death,
)  # fmt: skip
from kymograph._sweep.orders import Order as Order
from kymograph._sweep.progress import Follower as Follower
from kymograph._sweep.worker import WORKER as WORKER, carry_out as carry_out
