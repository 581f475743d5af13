"""Exports stored runs for other programs: each format is a part with a function ``(store, path)``."""

from __future__ import annotations

from pathlib import Path

from kymograph._errors import KymographError, did_you_mean
from kymograph._io.writing import make_directory
from kymograph._registry import Registry
from kymograph._runs.store import Store

FORMATS = Registry("kymograph.formats", "kymograph._runs.formats", "write")


def export(store: Store, to: str, output: str | Path, seed: int | None = None) -> Path:
    """Writes every run of ``store`` to ``output``; returns the path.

    >>> ky.export(ky.Store.open("runs"), "csv", "runs.csv")
    PosixPath('runs.csv')

    Args:
        store: the runs.
        to: ``json``, ``csv`` or ``parquet`` (a file; the latter two also write the summaries to a file
            ``NAME-summary`` next to it), ``csv-summary`` (the summaries alone), ``tensorboard`` (a directory of
            event files), ``mlflow`` (an SQLite database), or another registered format.
        output: the file or directory to write. Exporting again replaces earlier exports of these runs.
        seed: which seed to write, for a format that holds one seed per file (``"one_seed": True`` in its ``PART``).
    """
    if to not in FORMATS.names():
        raise KymographError(f"cannot export to {to!r}{did_you_mean(to, FORMATS.names())}")
    path = Path(output)
    if FORMATS.part(to).properties.get("one_seed"):
        seeds = store.finished.seeds
        if seed is None and len(seeds) > 1:
            raise KymographError(f"a file of the format {to} has one seed; choose it with --seed {seeds[0]}")
        if seed is not None and seed not in seeds:
            raise KymographError(f"there is no finished run of seed {seed}; stored: {', '.join(map(str, seeds))}")
        store = store if seed is None else store.select(seeds=[seed])
    write = FORMATS.load(to)
    make_directory(path.parent)
    write(store, path)
    return path
