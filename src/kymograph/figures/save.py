"""Figures on disk: PNG and PDF with the same bytes every time, and the data behind them as CSV."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from kymograph.errors import KymographError
from kymograph.figures.style import LabFigure
from kymograph.runs.record import make_directory, write_atomically
from kymograph.runs.spec import digest
from kymograph.runs.store import Store

_NO_DATES = {"png": {"Software": None}, "pdf": {"CreationDate": None, "ModDate": None, "Producer": None}}
_STAMP = "made-from.json"


def save_figure(figure: Figure, directory: Path, name: str, formats: Iterable[str] = ("png", "pdf")) -> list[Path]:
    """Writes ``name``.png, .pdf and .csv into ``directory``; returns the paths."""
    make_directory(directory)
    paths = []
    for kind in formats:
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=160, metadata=_NO_DATES.get(kind), bbox_inches="tight")
        paths.append(directory / f"{name}.{kind}")
        write_atomically(paths[-1], buffer.getvalue())
    if isinstance(figure, LabFigure) and figure.columns:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(figure.columns)
        writer.writerows(["" if cell != cell else cell for cell in row] for row in figure.rows)
        paths.append(directory / f"{name}.csv")
        write_atomically(paths[-1], text.getvalue().encode())
    return paths


def save_stale(
    store: Store, draws: Mapping[str, Callable[[Store], Figure]], directory: Path, code: str
) -> tuple[list[Path], int]:
    """Draws and writes the figures whose runs or drawing code changed since they were last written.

    Returns the paths written and the number of figures that were still good.
    """
    make_directory(directory)
    stamp = directory / _STAMP
    try:
        known = json.loads(stamp.read_text())
    except (OSError, ValueError):
        known = {}
    origin = digest([code, sorted(run.id for run in store.finished)])
    written: list[Path] = []
    kept = 0
    for name, draw in draws.items():
        if known.get(name) == origin:
            kept += (directory / f"{name}.png").exists()
            continue
        with contextlib.suppress(KymographError):  # it may need arms that these runs do not have
            written += save_figure(draw(store), directory, name)
        known[name] = origin
        write_atomically(stamp, json.dumps(known, indent=1, sort_keys=True).encode())
    return written, kept
