"""How many examples, and by which seed: KYMOGRAPH_FUZZ_EXAMPLES, KYMOGRAPH_FUZZ_COMMANDS and KYMOGRAPH_FUZZ_SEED."""

from __future__ import annotations

import os

SEED = int(os.environ.get("KYMOGRAPH_FUZZ_SEED", "0"))
EXAMPLES = int(os.environ.get("KYMOGRAPH_FUZZ_EXAMPLES", "300"))
"""Examples in process: half of them damaged files, half command lines and texts."""
COMMANDS = int(os.environ.get("KYMOGRAPH_FUZZ_COMMANDS", "6"))
"""Cases through the real command line."""
FAST = 20
"""How many of the damaged files are in the fast suite."""
EXACTLY = f"seed {SEED}; set KYMOGRAPH_FUZZ_SEED for others"
