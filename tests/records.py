"""Records written by hand, where a test needs stored runs but no sweep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kymograph._runs.record import RunResult, pack_record, store_record
from kymograph._runs.spec import RunSpec


def write_record(
    root: Path, spec: RunSpec[Any], result: RunResult, provenance: Mapping[str, Any], seconds: float
) -> None:
    """Stores a finished run below ``root``, replacing any earlier record."""
    store_record(root, spec, pack_record(spec, result, provenance), seconds)
