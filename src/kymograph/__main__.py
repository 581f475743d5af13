"""``python -m kymograph`` is the command ``kymograph``."""

from __future__ import annotations

import os
import sys

try:
    here = os.getcwd()
except OSError:  # the current directory was deleted
    here = ""
if not sys.flags.safe_path and sys.path[:1] == [here]:
    del sys.path[0]  # otherwise a random.py in the current directory would shadow Python's own

from kymograph._cli.main import main  # imports the standard library, so only now

main()
