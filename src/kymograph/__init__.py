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
    from kymograph._claims.claim import Check as Check
    from kymograph._claims.claim import Claim as Claim
    from kymograph._claims.claim import Measure as Measure
    from kymograph._claims.claim import Side as Side
    from kymograph._claims.estimands import difference_map as difference_map
    from kymograph._claims.judge import judge as judge
    from kymograph._claims.verdict import Verdicts as Verdicts
    from kymograph._errors import KymographError as KymographError
    from kymograph._experiments.active_run import ActiveRun as ActiveRun
    from kymograph._experiments.function_study import study as study
    from kymograph._experiments.recorded_loop import record as record
    from kymograph._experiments.running import run as run
    from kymograph._pictures.figures import figure as figure
    from kymograph._probes.probe import Probe as Probe
    from kymograph._runs.declaration import Arm as Arm
    from kymograph._runs.declaration import SeriesDisplay as SeriesDisplay
    from kymograph._runs.formats import export as export
    from kymograph._runs.record import RunResult as RunResult
    from kymograph._runs.record import RunSeries as RunSeries
    from kymograph._runs.spec import RunSpec as RunSpec
    from kymograph._runs.store import LabelledArray as LabelledArray
    from kymograph._runs.store import Store as Store
    from kymograph._runs.stored_run import StoredRun as StoredRun
    from kymograph._runs.tuned import Tuned as Tuned
    from kymograph._streams import fixed_seeds as fixed_seeds
    from kymograph._streams import generator as generator
    from kymograph._studies.loading import list_studies as list_studies
    from kymograph._studies.loading import load_study as load_study
    from kymograph._studies.study import Study as Study
    from kymograph_studies.audit.checkpoint import audit as audit

_HOMES = {
    "ActiveRun": "kymograph._experiments.active_run",
    "Arm": "kymograph._runs.declaration",
    "Check": "kymograph._claims.claim",
    "Claim": "kymograph._claims.claim",
    "KymographError": "kymograph._errors",
    "LabelledArray": "kymograph._runs.store",
    "Measure": "kymograph._claims.claim",
    "Probe": "kymograph._probes.probe",
    "Side": "kymograph._claims.claim",
    "RunResult": "kymograph._runs.record",
    "RunSeries": "kymograph._runs.record",
    "RunSpec": "kymograph._runs.spec",
    "SeriesDisplay": "kymograph._runs.declaration",
    "Store": "kymograph._runs.store",
    "StoredRun": "kymograph._runs.stored_run",
    "Study": "kymograph._studies.study",
    "Tuned": "kymograph._runs.tuned",
    "Verdicts": "kymograph._claims.verdict",
    "audit": "kymograph_studies.audit.checkpoint",
    "difference_map": "kymograph._claims.estimands",
    "export": "kymograph._runs.formats",
    "figure": "kymograph._pictures.figures",
    "fixed_seeds": "kymograph._streams",
    "generator": "kymograph._streams",
    "judge": "kymograph._claims.judge",
    "list_studies": "kymograph._studies.loading",
    "load_study": "kymograph._studies.loading",
    "record": "kymograph._experiments.recorded_loop",
    "run": "kymograph._experiments.running",
    "study": "kymograph._experiments.function_study",
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
