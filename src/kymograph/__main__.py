"""``python -m kymograph`` is the command ``kymograph``."""

from kymograph.cli.main import main

main()
