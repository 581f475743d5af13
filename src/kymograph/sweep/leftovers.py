"""Removes what killed processes left in a study's directory, when a sweep starts."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from kymograph.foreign.files import entries
from kymograph.runs.processes import remove_abandoned_files
from kymograph.runs.spec import slug
from kymograph.sweep.heartbeat import at_work
from kymograph.sweep.plan import Stack

PART = ".part"
"""The suffix of a directory with the resume state of an unfinished run."""


def remove_leftovers(root: Path, study: str, stacks: Iterable[Stack]) -> None:
    """Removes half-written records, old beats, and the resume states of stored runs.

    The resume states stay while a process is at work: it may be recomputing a stored run with the rest of its stack.
    """
    directory = root / slug(study)
    remove_abandoned_files(directory, root)
    if at_work(directory, root):
        return
    with contextlib.suppress(OSError):
        parts = {entry.name for entry in entries(directory) if entry.name.endswith(PART)}
        stored = (
            spec for stack in stacks for spec, absent in zip(stack.specs, stack.missing, strict=True) if not absent
        )
        for spec in stored if parts else ():
            name = f"{Path(spec.directory).name}{PART}"
            if name in parts:
                shutil.rmtree(directory / name, ignore_errors=True)
