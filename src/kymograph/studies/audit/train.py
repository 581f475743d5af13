"""Training the rungs of the ladder."""

from __future__ import annotations

from collections.abc import Sequence

from kymograph.runs.record import RunResult
from kymograph.runs.spec import RunSpec
from kymograph.studies.audit import AuditConfig
from kymograph.studies.image_training import fit, result
from kymograph.sweep.compute import Workplace


def train(specs: Sequence[RunSpec[AuditConfig]], work: Workplace) -> list[RunResult]:
    """Trains the rungs one after the other; returns each one's measurements."""
    return [_rung(spec, work) for spec in specs]


def _rung(spec: RunSpec[AuditConfig], work: Workplace) -> RunResult:
    """Trains embed, read-out and the last k blocks."""
    config = spec.config
    blocks = [f"blocks.{number}" for number in range(config.depth - config.last, config.depth)]
    return result(spec, fit(spec, config.network, work, ["embed", *blocks, "readout"]))
