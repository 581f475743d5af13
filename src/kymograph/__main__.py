"""``python -m kymograph`` is the command ``kymograph``."""

from kymograph.cli import main

main()
