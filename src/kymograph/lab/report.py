"""Writing the report of a directory that is already read and judged, as one page."""

from __future__ import annotations

import datetime
from collections.abc import Collection
from pathlib import Path

from kymograph.claims.verdict import Verdicts
from kymograph.errors import KymographError
from kymograph.report.page import TITLE, write_page
from kymograph.runs.archive import Archive
from kymograph.runs.store import Store


def write_report(
    archive: Archive, verdicts: Verdicts, path: Path, *, title: str = TITLE, only: Collection[str] | None = None
) -> Path:
    """Writes the page of an archive's runs, or of those with ids in ``only``, and their verdicts; returns its path."""
    runs = [run for run in archive.store if only is None or run.id in only]
    if not runs:
        root = archive.root
        raise KymographError(f"{root} contains no readable run; make some with `kymograph run STUDY --out {root}`")
    return write_page(
        Store(runs, archive.root),
        verdicts,
        path,
        declarations=archive.declarations,
        damaged=archive.damaged,
        planned=archive.planned,
        title=title,
        now=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC"),
    )
