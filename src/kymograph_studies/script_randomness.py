"""Random numbers as the research scripts draw them: from one generator, seeded with the seed itself.

A run must start from a script's own weights and feedback matrices to be compared with it. All other random numbers come
from named streams (`kymograph._streams`).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def script_generator(seed: int) -> torch.Generator:
    """Returns a CPU generator that gives what ``torch.manual_seed(seed)`` followed by global draws would give."""
    import torch

    return torch.Generator().manual_seed(seed)


def script_random(seed: int) -> random.Random:
    """Returns a Python generator in the state that ``random.seed(seed)`` would give the global one."""
    return random.Random(seed)
