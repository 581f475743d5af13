"""Writes a thin copy of a directory of runs: what verdicts rest on, without the series measured at every step."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from kymograph._claims.claim import Measure
from kymograph._claims.measures import measure
from kymograph._claims.registration import registered_claims
from kymograph._errors import KymographError
from kymograph._io.files import MAX_TENSORS, is_file, read_bytes
from kymograph._io.writing import SCHEMA, make_directory
from kymograph._runs import record
from kymograph._runs.declaration import FILE as DECLARATION
from kymograph._runs.directory import Directory
from kymograph._runs.log import DIRECTORY as LOG
from kymograph._runs.record import RunResult
from kymograph._runs.spec import slug
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.thin_run import ARRAYS, DOCUMENT, MOST_MEASUREMENTS, ThinRun
from kymograph._runs.tuned import tuned_study
from kymograph._studies.loading import registered_study


def write_thin_copy(directory: Directory, target: Path) -> None:
    """Writes a thin copy of an directory to the directory ``target``: log, declarations, and every run.

    Of the series that are left out, the numbers are kept that the registered claims read, and those of the study's
    present ones. Raises if a record is damaged, because a thin copy could not show it.
    """
    if directory.damaged:
        raise KymographError(f"{directory.damaged[0].reason}; a thin bundle holds only runs that can be read")
    documents = [*(directory.root / LOG).glob("*.jsonl")]
    documents += [directory.root / slug(study) / DECLARATION for study in directory.studies]
    for path in filter(is_file, documents):
        copy = target / path.relative_to(directory.root)
        make_directory(copy.parent)
        copy.write_bytes(read_bytes(path, MAX_TENSORS))
    measures = {study: _measures_read(directory, study) for study in directory.studies}
    for run in directory.store:
        _write_thin(run, target / run.directory.relative_to(directory.root), measures[run.study])


def _measures_read(directory: Directory, study: str) -> set[Measure]:
    """Returns the measures of a study's series that its claims, registered or present, read."""
    claims = [claim for versions in registered_claims(directory.log, study).values() for claim in versions]
    present = registered_study(study) if tuned_study(study) is None else None
    claims += [] if present is None else present.claims()
    return {side.measure for claim in claims for side in claim.every_side if side.measure.reduce is not None}


def _write_thin(run: StoredRun, target: Path, measures: Iterable[Measure]) -> None:
    """Writes a thin copy of one run to the directory ``target``."""
    make_directory(target)
    for name in (record.CONFIG, record.SUMMARY, record.STATUS, record.TRACEBACK):
        if is_file(run.directory / name):
            (target / name).write_bytes(read_bytes(run.directory / name, MAX_TENSORS))
    if not run.has_results:
        return
    kept = {name: series for name, series in run.series.items() if len(series.step) <= MOST_MEASUREMENTS}
    (target / ARRAYS).write_bytes(record.pack_record(run.spec, RunResult(kept, {}), {})[record.ARRAYS])
    left_out = {*run.series, *(run.left_out if isinstance(run, ThinRun) else ())} - kept.keys()
    rows = []
    for what in sorted((what for what in measures if what.name in left_out), key=str):
        value = measure(run, what)
        # JSON has no NaN; `float` reads the words back.
        rows.append([what.name, what.reduce, what.site, value if math.isfinite(value) else str(value)])
    content = {"schema": SCHEMA, "left_out": sorted(left_out), "reductions": rows}
    (target / DOCUMENT).write_bytes((json.dumps(content, indent=1) + "\n").encode())
