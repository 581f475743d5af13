"""What the author of an engine imports; see `docs/howto/add-an-engine.md`."""

from kymograph._sweep.compute import RunOutcome as RunOutcome
from kymograph._sweep.engines.base import (
    BeatProgress as BeatProgress, ENGINES as ENGINES, Engine as Engine, exit_reason as exit_reason,
    record_death as record_death,
)  # fmt: skip
from kymograph._sweep.orders import Order as Order
from kymograph._sweep.progress import Follower as Follower
from kymograph._sweep.worker import WORKER as WORKER, carry_out as carry_out
