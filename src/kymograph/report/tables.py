"""The tables of a study's section: numbers over seeds, and settings in which the arms differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kymograph.analysis.alarms import MEANINGS, summary_key
from kymograph.runs.bounds import bounds_of
from kymograph.runs.declaration import Declaration
from kymograph.runs.headlines import headline_number
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun

MOST_HEADLINES = 6
"""The most summary numbers shown for a study that declares no headlines."""


@dataclass(frozen=True)
class Cell:
    """A table cell: ``main`` in the text colour, followed by ``rest`` in grey."""

    main: str
    rest: str = ""


@dataclass(frozen=True)
class Table:
    """A table of cells, one row per arm."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    note: str = ""
    """What a reader must know to read the numbers."""


def headline_table(store: Store, arms: Sequence[str], declaration: Declaration) -> Table:
    """Returns the mean over seeds of every headline number, with its 95 % interval.

    A study without headlines shows the first few numbers that are in no other table.
    """
    elsewhere = {key for columns in declaration.tables.values() for key in columns}
    first = [key for key in numeric_keys(store) if key not in elsewhere][:MOST_HEADLINES]
    columns = declaration.headlines or {key: key for key in first}
    return _number_table(store, arms, columns, declaration)


def declared_tables(store: Store, arms: Sequence[str], declaration: Declaration) -> tuple[tuple[str, Table], ...]:
    """Returns the other tables that a study declares, with their titles; tables without numbers are left out."""
    tables = [
        (title, _number_table(store, arms, columns, declaration)) for title, columns in declaration.tables.items()
    ]
    return tuple((title, table) for title, table in tables if table.rows)


def numeric_keys(store: Store) -> list[str]:
    """Returns the summary keys that are numeric in some finished run."""
    found = {
        key
        for run in store.finished
        for key, value in run.summary.items()
        if isinstance(value, int | float) and key != "finite"
    }
    return sorted(found)


def _number_table(store: Store, arms: Sequence[str], columns: Mapping[str, str], declaration: Declaration) -> Table:
    """Returns the table of those summary numbers in ``columns`` that some run has."""
    known = numeric_keys(store)
    columns = {key: label for key, label in columns.items() if key in known}
    rows = []
    for arm in arms:
        runs = store.finished.select(arms=[arm]).runs
        values = {key: [run.summary.get(key) for run in runs] for key in columns}
        cells = (
            number_cell(found, bounds_of(key, found, declaration.bounds), key in declaration.p_values)
            for key, found in values.items()
        )
        rows.append((arm, tuple(cells)))
    return Table(tuple(columns.values()), tuple(rows) if columns else (), _alarm_note(columns))


def _alarm_note(columns: Mapping[str, str]) -> str:
    """Returns the thresholds of the alarms whose first epochs are among the columns; empty if there are none."""
    shown = [f"{alarm} if {text}" for alarm, text in MEANINGS.items() if summary_key(alarm) in columns]
    return f"First epoch at which an alarm is raised: {'; '.join(shown)}. –: in no run." if shown else ""


def number_cell(values: Sequence[Any], bounds: tuple[float, float] | None = None, p_value: bool = False) -> Cell:
    """Returns the mean and its 95 % interval over seeds; for Booleans, how many are true; for p-values, the median."""
    found = headline_number(values, bounds=bounds)
    if found.n == 0:
        return Cell("–")
    if found.true is not None:
        return Cell(f"{found.true} of {found.n}")
    text = found.text(p_value=p_value, typeset=True)
    mean, _, spread = text.partition(", " if p_value else " ")
    missing = f" ({found.n} of {len(values)} seeds)" if found.missing else ""
    return Cell(mean, f"{spread}{missing}".strip())


def shared_settings(store: Store) -> tuple[tuple[str, str], ...]:
    """Returns the settings that all runs have in common, with their values."""
    return tuple((name, values[0]) for name, values in _setting_values(store).items() if len(set(values)) == 1)


def differing_settings(store: Store, arms: Sequence[str]) -> Table:
    """Returns the settings in which the arms differ; values shared by most arms are grey."""
    # All runs of an arm share their settings here, so one run per arm is enough.
    first = [next(run for run in store if run.arm == arm) for arm in arms]
    columns = {name: values for name, values in _setting_values(first).items() if len(set(values)) > 1}
    usual = {
        name: value for name, values in columns.items() for value in set(values) if 2 * values.count(value) > len(arms)
    }
    rows = []
    for index, arm in enumerate(arms):
        own = ((values[index], usual.get(name)) for name, values in columns.items())
        rows.append((arm, tuple(Cell("", value) if value == common else Cell(value) for value, common in own)))
    return Table(tuple(columns), tuple(rows) if columns else ())


def _setting_values(runs: Iterable[StoredRun]) -> dict[str, list[str]]:
    """Returns every setting's value in each run, as text."""
    configs = [run.config for run in runs]
    names = sorted({name for config in configs for name in config})
    return {name: [str(config[name]) if name in config else "–" for config in configs] for name in names}
