"""Training one rung of the ladder."""

from __future__ import annotations

from kymograph.runs.record import RunResult
from kymograph.runs.spec import RunSpec
from kymograph.studies.audit import AuditConfig
from kymograph.studies.image_training import fit, result
from kymograph.sweep.compute import Workplace


def train(spec: RunSpec, work: Workplace) -> RunResult:
    """Trains embed, read-out and the last k blocks; returns the run as `snapshot` would."""
    config = AuditConfig(**spec.config)  # type: ignore[arg-type]
    blocks = [f"blocks.{number}" for number in range(config.depth - config.last, config.depth)]
    return result(spec, fit(spec, config.network, work, ["embed", *blocks, "readout"]))
