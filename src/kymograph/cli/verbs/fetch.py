"""``kymograph fetch``: a data set, downloaded from its official address and checked."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Annotated

from kymograph.cli.arguments import choice, parse, positional, shown
from kymograph.cli.choices import DOWNLOADS

PART = {
    "about": "download CIFAR-10 and check it; nothing else is ever downloaded",
    "usage": "fetch cifar10 DIR",
    "order": 140,
}


@dataclass(frozen=True)
class Options:
    """Download a data set from its official address and check it."""

    name: Annotated[str, positional(), choice(DOWNLOADS)]
    """What to fetch."""
    directory: Annotated[str, positional(), shown("DIR")]
    """Where to put it; pass this directory as `--data-dir` or KYMOGRAPH_DATA."""


def main(words: list[str]) -> int:
    """Downloads a data set; prints its directory."""
    options = parse(Options, words, "kymograph fetch")
    from kymograph.data import DATA_SETS

    files = importlib.import_module(DATA_SETS.part(options.name).facts["files"])
    print(files.fetch(options.directory))
    return 0
