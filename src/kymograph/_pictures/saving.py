"""Figures on disk: byte-for-byte reproducible PNG, PDF and SVG, and the data behind them as CSV."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox

from kymograph._errors import KymographError
from kymograph._io.documents import read_json
from kymograph._io.writing import make_directory, write_atomically
from kymograph._pictures.canvas import LabFigure, matplotlib_settings
from kymograph._pictures.styles import FILES, NOTEBOOK
from kymograph._runs.formats.data_files import csv_line, write_csv
from kymograph._runs.spec import digest
from kymograph._runs.store import Store

FORMATS = ("png", "pdf", "svg")
# None omits what matplotlib would write by default: a date, or a library's version.
_NO_DATES: dict[str, dict[str, str | None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
}
_STAMP = "made-from.json"


def save_figure(
    figure: Figure,
    directory: Path,
    name: str,
    formats: Iterable[str] = FORMATS,
    follow: Callable[[str], None] = lambda doing: None,
) -> list[Path]:
    """Writes ``name``.png, .pdf, .svg and .csv into ``directory``; returns the paths.

    ``follow`` is called before the figure is laid out and before each file is written, to drive a progress bar.
    """
    style = figure.style if isinstance(figure, LabFigure) else NOTEBOOK
    title = getattr(figure, "caption", "") or name
    make_directory(directory)
    paths = []
    follow(f"{name}: layout")
    with _laid_out(figure) as box:
        for kind in formats:
            follow(f"{name}.{kind}")
            buffer = io.BytesIO()
            figure.savefig(
                buffer,
                format=kind,
                dpi=style.dpi,
                metadata={"Title": title, **_NO_DATES.get(kind, {})},
                bbox_inches=None if style.fixed else box,
            )
            paths.append(directory / f"{name}.{kind}")
            write_atomically(paths[-1], buffer.getvalue())
    if isinstance(figure, LabFigure) and figure.columns:
        lines = [csv_line("" if cell != cell else cell for cell in row) for row in (figure.columns, *figure.rows)]
        paths.append(directory / f"{name}.csv")
        write_csv(paths[-1], lines)
    return paths


@contextlib.contextmanager
def _laid_out(figure: Figure) -> Iterator[Bbox]:
    """Lays the figure out once for all formats: layout takes as long as drawing, and all formats then agree exactly.

    Yields the box around everything that is drawn, in inches, with a margin.
    """
    engine = figure.get_layout_engine()
    with matplotlib_settings(figure.style) if isinstance(figure, LabFigure) else matplotlib.rc_context(FILES):
        if engine is not None and figure.axes:
            with contextlib.suppress(ValueError):  # as `Figure.draw` does: a figure of no size cannot be laid out
                engine.execute(figure)  # not a full draw, whose output would be discarded
        # None, not "none": the latter leaves a placeholder, with which every format would be drawn twice.
        with matplotlib.rc_context({"figure.constrained_layout.use": False, "figure.autolayout": False}):
            figure.set_layout_engine(None)
        try:
            yield figure.get_tightbbox().padded(matplotlib.rcParams["savefig.pad_inches"])
        finally:
            figure.set_layout_engine(engine)


def save_stale(
    store: Store,
    draws: Mapping[str, Callable[[Store], Figure]],
    directory: Path,
    code: str,
    formats: Iterable[str] = FORMATS,
) -> tuple[list[Path], int]:
    """Draws and writes the figures whose runs or drawing code changed since they were last written.

    Returns the paths written and the number of figures that were up to date.
    """
    make_directory(directory)
    stamp = directory / _STAMP
    try:
        content = read_json(stamp, follow=False)
    except KymographError:
        content = {}
    origins: dict[str, Any] = content if isinstance(content, dict) else {}
    kinds = list(formats)
    origin = digest([code, kinds, sorted(run.id for run in store.finished)])
    written: list[Path] = []
    kept = 0
    for name, draw in draws.items():
        complete = all((directory / f"{name}.{kind}").exists() for kind in kinds)
        if origins.get(name) == origin and complete:
            kept += 1
            continue
        if origins.get(name) == f"{origin}, not drawn":
            continue
        if origins.pop(name, None) is not None:  # killed while redrawing, it must not count as up to date
            write_atomically(stamp, json.dumps(origins, indent=1, sort_keys=True).encode())
        try:
            written += save_figure(draw(store), directory, name, kinds)
            origins[name] = origin
        except KymographError:  # it may need arms that these runs do not have
            origins[name] = f"{origin}, not drawn"
            for kind in (*kinds, "csv"):
                (directory / f"{name}.{kind}").unlink(missing_ok=True)
        write_atomically(stamp, json.dumps(origins, indent=1, sort_keys=True).encode())
    return written, kept
