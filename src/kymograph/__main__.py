"""``python -m kymograph`` is the command ``kymograph``."""

import os
import sys

if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]  # Python searches the current directory first: a random.py in it would be everybody's random

from kymograph.cli.main import main

main()
