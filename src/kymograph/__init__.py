"""Kymograph: a laboratory for the dynamics of neural-network training.

    >>> import kymograph as ky
    >>> store = ky.run("warmup.py", n_seeds=10, quiet=True)
    >>> ky.judge(store)[0].outcome
    <Outcome.SUPPORTED: 'SUPPORTED'>

Names are loaded when they are first used, so that importing this package costs next to nothing; the imports below are
the list of them. What a part of your own needs is in the modules named after the kinds of parts: `kymograph.engines`,
`kymograph.figures`, `kymograph.formats`, `kymograph.panels`, `kymograph.parts`, `kymograph.quantities`,
`kymograph.studies` and `kymograph.verbs`. Whatever starts with an underscore may change without notice.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kymograph._claims.claim import Check as Check, Claim as Claim, Measure as Measure, Side as Side
    from kymograph._claims.estimands import difference_map as difference_map
    from kymograph._claims.judge import judge as judge
    from kymograph._claims.registration import Registration as Registration, register as register
    from kymograph._claims.verdict import Outcome as Outcome, Verdict as Verdict, Verdicts as Verdicts
    from kymograph._errors import KymographError as KymographError
    from kymograph._experiments.active_run import ActiveRun as ActiveRun
    from kymograph._experiments.function_study import study as study
    from kymograph._experiments.recorded_loop import RecordedRun as RecordedRun, record as record
    from kymograph._experiments.running import run as run
    from kymograph._pictures.figures import figure as figure
    from kymograph._pictures.report_page.page import report as report
    from kymograph._probes.probe import Probe as Probe
    from kymograph._runs.declaration import Arm as Arm, SeriesDisplay as SeriesDisplay
    from kymograph._runs.formats import export as export
    from kymograph._runs.record import RunResult as RunResult, RunSeries as RunSeries
    from kymograph._runs.spec import RunSpec as RunSpec
    from kymograph._runs.store import LabelledArray as LabelledArray, Store as Store
    from kymograph._runs.stored_run import StoredRun as StoredRun
    from kymograph._runs.tuned import Tuned as Tuned
    from kymograph._sharing.verify import CheckResult as CheckResult, verify as verify
    from kymograph._streams import fixed_seeds as fixed_seeds, generator as generator
    from kymograph._studies.loading import list_studies as list_studies, load_study as load_study
    from kymograph._studies.study import Study as Study
    from kymograph._sweep.compute import Workplace as Workplace
    from kymograph_studies import rules as rules
    from kymograph_studies.audit.checkpoint import audit as audit
else:
    from kymograph._lazy import load_on_demand

    __getattr__, __dir__, __all__ = load_on_demand(__name__)
    del load_on_demand

__version__ = "0.1.0"
