"""Failed runs of a sweep as text: which, why, and where in the code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kymograph.runs.store import Store
from kymograph.sweep.compute import RunOutcome

MOST_SHOWN = 5


def failure_text(failures: Sequence[RunOutcome], store: Store, out: str | Path, debug: bool = False) -> str:
    """Returns the first failed runs with their reasons, with ``debug`` their tracebacks, and how to see the others.

    Args:
        failures: how the runs that failed ended.
        store: the runs of the sweep.
        out: their directory, as the user wrote it.
        debug: whether to show tracebacks. Runs that failed at the same spot show it once.
    """
    runs = {run.id: run for run in store.failed}
    lines: list[str] = []
    shown: dict[str, str] = {}
    for failure in failures[:MOST_SHOWN]:
        run = runs.get(failure.run)
        name = failure.run if run is None else f"{run.arm}, seed {run.seed}"
        lines.append(f"  failed: {name}: {failure.reason}")
        if debug:
            trace = None if run is None else run.traceback
            before = shown.setdefault(trace or "", name)
            if trace is None:
                lines.append("    no traceback: its process ended without a word")
            elif before != name:
                lines.append(f"    the traceback is that of {before}")
            else:
                lines += [f"    {line}" for line in trace.rstrip().splitlines()]
    if len(failures) > MOST_SHOWN:
        lines.append(f"  and {len(failures) - MOST_SHOWN} more")
    if lines and not debug:
        lines.append(f"  --debug prints tracebacks; `kymograph runs {out} --status failed` lists the runs")
    return "\n".join(lines)
