"""The source of users' parts: a rule, data set, model or null from outside this package is part of a run's identity."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from kymograph.data import load_task
from kymograph.registry import Registry
from kymograph.sweep.code_reference import forget
from kymograph.sweep.source_hash import source_files, source_hash

_hashed: dict[str, str] = {}
"""The hash of each part's source when it was last asked for, by module."""


def part_hashes(parts: Iterable[tuple[Registry, str]]) -> dict[str, str]:
    """Returns the hash of each part that is not this package's own, by kind and name; see `source_hash`.

    A part that was imported before its hash was ever taken, or edited since, is imported again when it is next loaded,
    so that the code that runs is the code that is hashed.
    """
    found = {}
    for registry, name in parts:
        if registry.is_built_in(name):
            continue
        part = registry.part(name)
        if part.file is None:
            continue  # no source to read, e.g. a compiled module
        files = source_files(part.file, part.module)
        source = source_hash(files)
        if _hashed.get(part.module) != source:
            if any(module in sys.modules for module in files):
                forget(files)
                load_task.cache_clear()  # the data of a data set that was edited
            _hashed[part.module] = source
        found[f"{registry.noun} {name}"] = source
    return found
