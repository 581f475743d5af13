"""The source of users' parts: a rule, data set, model or null from outside this package is part of a run's identity."""

from __future__ import annotations

from collections.abc import Iterable

from kymograph.registry import Registry
from kymograph.sweep.source_hash import source_files, source_hash


def part_hashes(parts: Iterable[tuple[Registry, str]]) -> dict[str, str]:
    """Returns the hash of each part that is not this package's own, by kind and name; see `source_hash`."""
    found = {}
    for registry, name in parts:
        part = registry.part(name)
        if not registry.is_built_in(name) and part.file is not None:
            found[f"{registry.noun} {name}"] = source_hash(source_files(part.file, part.module))
    return found
