"""Verdicts for pandas and xarray."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kymograph.runs.frames import import_pandas, import_xarray
from kymograph.runs.run_table import as_number

if TYPE_CHECKING:
    from kymograph.claims.verdict import Verdict

_NESTED = ("points", "checks", "registered", "settings", "notes", "failing_seeds")
_INTERVALS = ("interval", "equivalence_interval", "bca")
_SUPERIORITY = ("superiority", "superiority_low", "superiority_high")


def verdict_frame(verdicts: Sequence[Verdict]) -> Any:
    """Returns a pandas table with one row per verdict: claim, outcome, effect, interval ends, p-values and texts.

    Settings are columns ``setting/NAME``. Fields with many values per verdict, such as its seeds, are in
    `verdict_dataset` and in ``verdict.points``.
    """
    rows = []
    for verdict in verdicts:
        row: dict[str, Any] = {}
        for name, value in verdict.row().items():
            if name in _INTERVALS:
                low, high = value if value is not None else (None, None)
                row |= {f"{name}_low": as_number(low), f"{name}_high": as_number(high)}
            elif name == "superiority":
                row |= dict(zip(_SUPERIORITY, value if value is not None else (None,) * 3, strict=True))
            elif name not in _NESTED:
                row[name] = as_number(value)
        row["notes"] = "; ".join(verdict.notes)
        row |= {f"setting/{name}": value for name, value in verdict.settings.items()}
        rows.append(row)
    return import_pandas().DataFrame(rows)


def verdict_dataset(verdicts: Sequence[Verdict]) -> Any:
    """Returns an ``xarray.Dataset`` over claim and seed: each seed's two numbers and difference, and each verdict.

    ``left``, ``right`` and ``value`` have dimensions (claim, seed), with NaN where a claim has no such seed; the other
    variables, ``effect``, ``low``, ``high``, ``p`` and ``verdict``, have dimension (claim,).
    """
    xarray = import_xarray()
    seeds = list(dict.fromkeys(point.seed for verdict in verdicts for point in verdict.points))
    column = {seed: position for position, seed in enumerate(seeds)}
    numbers = {name: np.full((len(verdicts), len(seeds)), np.nan) for name in ("left", "right", "value")}
    for row, verdict in enumerate(verdicts):
        for point in verdict.points:
            for name, values in numbers.items():
                values[row, column[point.seed]] = getattr(point, name)
    ends = [verdict.interval or (np.nan, np.nan) for verdict in verdicts]
    each = {
        "effect": [_number(verdict.effect) for verdict in verdicts],
        "low": [low for low, _ in ends],
        "high": [high for _, high in ends],
        "p": [_number(verdict.p) for verdict in verdicts],
        "verdict": [str(verdict.outcome) for verdict in verdicts],
    }
    variables = {name: (("claim", "seed"), values) for name, values in numbers.items()}
    names = {"claim": [verdict.claim.name for verdict in verdicts], "seed": seeds}
    study = ("claim", [verdict.claim.study for verdict in verdicts])
    return xarray.Dataset(
        {**variables, **{name: ("claim", values) for name, values in each.items()}}, coords={**names, "study": study}
    )


def _number(value: float | None) -> float:
    return float("nan") if value is None else value
