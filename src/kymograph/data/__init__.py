"""Tasks: tensors, and what is known about them before any training. A data set of images is one module here."""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from kymograph.registry import Registry

if TYPE_CHECKING:
    from kymograph.data.images import ImageTask

DATA_SETS = Registry("kymograph.data", "load", noun="data set")


@functools.lru_cache(maxsize=1)
def load_task(name: str, directory: str | Path | None = None) -> ImageTask:
    """Returns the data set called ``name``; kept, so that the runs of one process read it once.

    ``directory`` is where a data set that is files lies; None: where the environment says.
    """
    return DATA_SETS.load(name)(directory)


def check_files(name: str, directory: str | Path | None = None) -> str | None:
    """Raises if the files of a data set are missing; returns what a user should know of them, if anything.

    A data set that is files names the module that knows them (``PART["files"]``), which is imported without torch.
    """
    files = DATA_SETS.part(name).facts.get("files")
    return importlib.import_module(files).check(directory) if files else None
