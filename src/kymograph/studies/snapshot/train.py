"""Training the runs of `snapshot`: one network each, measured epoch by epoch."""

from __future__ import annotations

from collections.abc import Sequence

from kymograph.runs.record import RunResult
from kymograph.runs.spec import RunSpec
from kymograph.studies.image_training import fit, result
from kymograph.studies.snapshot import SnapshotConfig
from kymograph.sweep.compute import Workplace


def train(specs: Sequence[RunSpec[SnapshotConfig]], work: Workplace) -> list[RunResult]:
    """Trains the runs one after the other; returns each one's series, summary and network."""
    return [result(spec, fit(spec, spec.config, work)) for spec in specs]
