"""Exports stored runs for other programs. A format is one module of `runs.formats` with ``write(store, path)``."""

from __future__ import annotations

from pathlib import Path

from kymograph.errors import KymographError, did_you_mean
from kymograph.registry import Registry
from kymograph.runs.store import Store

FORMATS = Registry("kymograph.runs.formats", "write", noun="format")


def export(store: Store, to: str, output: str | Path) -> Path:
    """Writes every run of ``store`` to ``output``; returns the path.

    Args:
        store: the runs.
        to: ``json``, ``csv`` or ``parquet`` (a file; the latter two also write the summaries to a file
            ``NAME-summary`` next to it), ``csv-summary`` (the summaries alone), ``tensorboard`` (a directory of
            event files), ``mlflow`` (an SQLite database), or another registered format.
        output: the file or directory to write. Exporting again replaces earlier exports of these runs.
    """
    known = FORMATS.names()
    if to not in known:
        raise KymographError(f"cannot export to {to!r}{did_you_mean(to, known)}")
    path = Path(output)
    if not path.parent.is_dir():
        raise KymographError(f"there is no directory {path.parent}; create it first")
    FORMATS.load(to)(store, path)
    return path
