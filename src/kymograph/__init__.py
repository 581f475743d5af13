"""Kymograph: a laboratory for the dynamics of neural-network training.

    >>> import kymograph
    >>> store = kymograph.run("clipping", seeds=[42, 123])      # doctest: +SKIP
    >>> store.series("grad_norm").sel(arm="extreme/clip")       # doctest: +SKIP

Names are loaded when first used, so that importing this package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kymograph.claims.claim import Check as Check
    from kymograph.claims.claim import Claim as Claim
    from kymograph.claims.claim import Measure as Measure
    from kymograph.claims.claim import Side as Side
    from kymograph.claims.estimands import difference_map as difference_map
    from kymograph.claims.judge import judge as judge
    from kymograph.claims.verdict import Verdicts as Verdicts
    from kymograph.errors import KymographError as KymographError
    from kymograph.experiments.active_run import ActiveRun as ActiveRun
    from kymograph.experiments.function_study import study as study
    from kymograph.experiments.recorded_loop import record as record
    from kymograph.experiments.running import run as run
    from kymograph.pictures.figures import figure as figure
    from kymograph.probes.probe import Probe as Probe
    from kymograph.runs.declaration import Arm as Arm
    from kymograph.runs.declaration import SeriesDisplay as SeriesDisplay
    from kymograph.runs.formats import export as export
    from kymograph.runs.record import RunResult as RunResult
    from kymograph.runs.record import RunSeries as RunSeries
    from kymograph.runs.spec import RunSpec as RunSpec
    from kymograph.runs.store import LabelledArray as LabelledArray
    from kymograph.runs.store import Store as Store
    from kymograph.runs.stored_run import StoredRun as StoredRun
    from kymograph.runs.tuned import Tuned as Tuned
    from kymograph.streams import fixed_seeds as fixed_seeds
    from kymograph.streams import generator as generator
    from kymograph.studies.loading import list_studies as list_studies
    from kymograph.studies.loading import load_study as load_study
    from kymograph.studies.study import Study as Study
    from kymograph_studies.audit.checkpoint import audit as audit

_HOMES = {
    "ActiveRun": "kymograph.experiments.active_run",
    "Arm": "kymograph.runs.declaration",
    "Check": "kymograph.claims.claim",
    "Claim": "kymograph.claims.claim",
    "KymographError": "kymograph.errors",
    "LabelledArray": "kymograph.runs.store",
    "Measure": "kymograph.claims.claim",
    "Probe": "kymograph.probes.probe",
    "Side": "kymograph.claims.claim",
    "RunResult": "kymograph.runs.record",
    "RunSeries": "kymograph.runs.record",
    "RunSpec": "kymograph.runs.spec",
    "SeriesDisplay": "kymograph.runs.declaration",
    "Store": "kymograph.runs.store",
    "StoredRun": "kymograph.runs.stored_run",
    "Study": "kymograph.studies.study",
    "Tuned": "kymograph.runs.tuned",
    "Verdicts": "kymograph.claims.verdict",
    "audit": "kymograph_studies.audit.checkpoint",
    "difference_map": "kymograph.claims.estimands",
    "export": "kymograph.runs.formats",
    "figure": "kymograph.pictures.figures",
    "fixed_seeds": "kymograph.streams",
    "generator": "kymograph.streams",
    "judge": "kymograph.claims.judge",
    "list_studies": "kymograph.studies.loading",
    "load_study": "kymograph.studies.loading",
    "record": "kymograph.experiments.recorded_loop",
    "run": "kymograph.experiments.running",
    "study": "kymograph.experiments.function_study",
}

__all__ = [*sorted(_HOMES)]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "rules":  # a package, not a name: `ky.rules.make`
        return importlib.import_module("kymograph_studies.rules")
    if name not in _HOMES:
        raise AttributeError(f"module 'kymograph' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
