"""Failed runs of a sweep as text: which, why, and where in the code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kymograph.runs.store import Store
from kymograph.sweep.compute import RunOutcome
from kymograph.wording import counted

MOST_SHOWN = 5


def failure_text(failures: Sequence[RunOutcome], store: Store, out: str | Path, debug: bool = False) -> str:
    """Returns why runs failed, each reason once with the first run that had it; with ``debug``, tracebacks as well.

    Args:
        failures: how the runs that failed ended.
        store: the runs of the sweep.
        out: their directory, as the user wrote it.
        debug: whether to show tracebacks. Runs that failed at the same spot show it once.
    """
    runs = {run.id: run for run in store.failed}
    order = {run: index for index, run in enumerate(runs)}
    lines: list[str] = []
    shown: dict[str, str] = {}
    reasons: dict[str, list[RunOutcome]] = {}
    for failure in failures:
        reasons.setdefault(failure.reason or "", []).append(failure)
    for reason, alike in list(reasons.items())[:MOST_SHOWN]:
        # Engines report in the order in which runs end; the run that is named should not depend on it.
        failure = min(alike, key=lambda one: order.get(one.run, len(order)))
        run = runs.get(failure.run)
        name = failure.run if run is None else f"{run.arm}, seed {run.seed}"
        others = f" and {counted(len(alike) - 1, 'other run')}" if len(alike) > 1 else ""
        lines.append(f"  failed: {name}{others}: {reason}")
        if debug:
            trace = None if run is None else run.traceback
            before = shown.setdefault(trace or "", name)
            if trace is None:
                lines.append("    no traceback: its process ended without reporting one")
            elif before != name:
                lines.append(f"    the traceback is that of {before}")
            else:
                lines += [f"    {line}" for line in trace.rstrip().splitlines()]
    if len(reasons) > MOST_SHOWN:
        lines.append(f"  and {len(failures) - sum(map(len, list(reasons.values())[:MOST_SHOWN]))} more")
    if lines and not debug:
        lines.append(f"  --debug prints tracebacks; `kymograph runs {out} --status failed` lists the runs")
    return "\n".join(lines)
