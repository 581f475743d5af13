"""Tasks: tensors, and what is known about them before any training.

An image data set is a function from a directory (or None) to an `ImageTask`. A module declares its data sets in
``PARTS`` (or one, called ``load``, in ``PART``).
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from kymograph._sweep.code_loading import cleared_on_reimport
from kymograph.parts import Registry

if TYPE_CHECKING:
    from kymograph_studies.data.images import ImageTask


DATA_SETS = Registry("kymograph.data", "kymograph_studies.data", "load", noun="data set")


@cleared_on_reimport  # the cached data may be those of an edited data set
@functools.lru_cache(maxsize=1)
def load_task(name: str, directory: str | Path | None = None) -> ImageTask:
    """Returns the data set called ``name``, cached so that the runs of one process read it once.

    ``directory`` holds the files of a data set that has any; None: the directory that the environment names.
    """
    task: ImageTask = DATA_SETS.load(name)(directory)
    return task


def check_files(name: str, directory: str | Path | None = None) -> str | None:
    """Raises if the files of a data set are missing; returns a note about them for the user, if there is one.

    A data set with files names the module that checks them (``PART["files"]``), which is imported without torch.
    """
    files = DATA_SETS.part(name).properties.get("files")
    return importlib.import_module(files).check(directory) if files else None


def copy_remarks(digests: Iterable[str]) -> list[str]:
    """Returns what is known about unofficial copies of data sets among those with the given digests.

    A data set declares the copies that are known to differ from its official files (``PART["copies"]``), by
    `ImageTask.digest`.
    """
    remarks: dict[str, str] = {}
    for part in DATA_SETS.parts().values():
        if isinstance(copies := part.properties.get("copies"), dict):  # a user's package can declare anything
            remarks |= copies
    return [str(remarks[digest]) for digest in sorted(set(digests)) if digest in remarks]
