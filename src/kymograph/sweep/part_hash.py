"""Source hashes of users' parts: rules, data sets, models and nulls that are part of a run's identity."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kymograph.data import load_task
from kymograph.registry import Registry
from kymograph.sweep.code_reference import forget
from kymograph.sweep.source_hash import source_files, source_hash

_hashed: dict[str, str] = {}
"""The last computed hash of each part's source, by module."""


@dataclass(frozen=True)
class PartCode:
    """Where the code of a user's part is, and its hash."""

    group: str
    """The part's group of entry points, e.g. ``kymograph.rules``."""
    name: str
    module: str
    attribute: str
    """The attribute that the entry point names; empty: the registry's default."""
    source: str
    files: Mapping[str, Path]
    """The part's file and the local modules that it imports, by import name."""


def part_code(registry: Registry, name: str) -> PartCode | None:
    """Returns the code of a user's part; None for a built-in part, and for one without a source file."""
    if registry.is_built_in(name):
        return None
    part = registry.part(name)
    if part.file is None:
        return None  # no source to read, e.g. a compiled module
    files = source_files(part.file, part.module)
    return PartCode(registry.package, name, part.module, part.attribute, source_hash(files), files)


def part_key(registry: Registry, name: str) -> str:
    """Returns the key under which a part's hash is stored, e.g. ``rule dfa``."""
    return f"{registry.noun} {name}"


def part_hashes(parts: Iterable[tuple[Registry, str]]) -> dict[str, str]:
    """Returns the `source_hash` of each part that is not built in, by kind and name.

    A part that was imported before it was first hashed, or edited since, is imported again when it is next loaded, so
    that the code that runs is the code that is hashed.
    """
    found = {}
    for registry, name in parts:
        code = part_code(registry, name)
        if code is None:
            continue
        if _hashed.get(code.module) != code.source:
            if any(module in sys.modules for module in code.files):
                forget(code.files)
                load_task.cache_clear()  # may hold data of an edited data set
            _hashed[code.module] = code.source
        found[part_key(registry, name)] = code.source
    return found
