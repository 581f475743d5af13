"""Writes stored runs as files of the research scripts."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kymograph.errors import KymographError
from kymograph.runs.files import plain, write_atomically
from kymograph.runs.store import Store


def export_script(
    store: Store, output: str | Path, seed: int | None, layout: Callable[[Store], Mapping[str, Any]]
) -> Path:
    """Writes one seed's runs in the layout of the study's script; returns the path."""
    seeds = store.finished.seeds
    if seed is None and len(seeds) > 1:
        raise KymographError(f"the script's file has one seed; choose it with --seed {seeds[0]}")
    if seed is not None and seed not in seeds:
        raise KymographError(f"there is no finished run of seed {seed}; stored: {', '.join(map(str, seeds))}")
    path = Path(output)
    if not path.parent.is_dir():
        raise KymographError(f"there is no directory {path.parent}; create it first")
    content = layout(store.select(seeds=[seed]) if seed is not None else store)
    write_atomically(path, (json.dumps(plain(content), indent=2) + "\n").encode())
    return path
