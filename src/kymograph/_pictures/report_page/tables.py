"""The tables of a study's section: summary numbers by arm, and the settings that arms share or differ in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kymograph._runs.declaration import Declaration, bounds_of
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.summaries import headline_number

MOST_HEADLINES = 6
"""The most summary numbers shown for a study that declares no headlines."""
NO_NOTES: Mapping[str, str] = {}


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


def headline_table(
    store: Store, arms: Sequence[str], declaration: Declaration, notes: Mapping[str, str] = NO_NOTES
) -> Table:
    """Returns the mean over seeds of every headline number, with its 95 % interval.

    A study without headlines shows the first few numbers that are in no other table. ``notes`` are the study's
    `Study.column_notes`.
    """
    elsewhere = {key for columns in declaration.tables.values() for key in columns}
    first = [key for key in numeric_keys(store) if key not in elsewhere][:MOST_HEADLINES]
    columns = declaration.headlines or {key: key for key in first}
    return _number_table(store, arms, columns, declaration, notes)


def declared_tables(
    store: Store, arms: Sequence[str], declaration: Declaration, notes: Mapping[str, str] = NO_NOTES
) -> tuple[tuple[str, Table], ...]:
    """Returns the other tables that a study declares, with their titles; tables without numbers are left out."""
    tables = [
        (title, _number_table(store, arms, columns, declaration, notes))
        for title, columns in declaration.tables.items()
    ]
    return tuple((title, table) for title, table in tables if table.rows)


def numeric_keys(store: Store) -> list[str]:
    """Returns the summary keys that are numeric in some finished run."""
    summaries = (run.summary.items() for run in store.finished)
    numeric = {key for summary in summaries for key, value in summary if isinstance(value, int | float)}
    return sorted(numeric - {"finite"})


def _number_table(
    store: Store, arms: Sequence[str], columns: Mapping[str, str], declaration: Declaration, notes: Mapping[str, str]
) -> Table:
    """Returns the table of those summary numbers in ``columns`` that some run has."""
    numeric = numeric_keys(store)
    columns = {key: label for key, label in columns.items() if key in numeric}
    rows = []
    for arm in arms:
        runs = store.finished.select(arms=[arm]).runs
        values = {key: [run.summary.get(key) for run in runs] for key in columns}
        cells = (
            number_cell(numbers, bounds_of(key, numbers, declaration.bounds), key in declaration.p_values)
            for key, numbers in values.items()
        )
        rows.append((arm, tuple(cells)))
    shown = [f"{label}: {notes[key]}" for key, label in columns.items() if key in notes]
    note = f"{'; '.join(shown)}. –: in no run." if shown else ""
    return Table(tuple(columns.values()), tuple(rows) if columns else (), note)


def number_cell(values: Sequence[Any], bounds: tuple[float, float] | None = None, p_value: bool = False) -> Cell:
    """Returns the mean and its 95 % interval over seeds; for Booleans, how many are true; for p-values, the median."""
    headline = headline_number(values, bounds=bounds)
    if headline.n == 0:
        return Cell("–")
    if headline.true is not None:
        return Cell(f"{headline.true} of {headline.n}")
    text = headline.text(p_value=p_value, typeset=True)
    mean, _, spread = text.partition(", " if p_value else " ")
    missing = f" ({headline.n} of {len(values)} seeds)" if headline.missing else ""
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
        pairs = ((values[index], usual.get(name)) for name, values in columns.items())
        rows.append((arm, tuple(Cell("", value) if value == common else Cell(value) for value, common in pairs)))
    return Table(tuple(columns), tuple(rows) if columns else ())


def _setting_values(runs: Iterable[StoredRun]) -> dict[str, list[str]]:
    """Returns every setting's value in each run, as text."""
    configs = [run.config for run in runs]
    names = sorted({name for config in configs for name in config})
    return {name: [str(config[name]) if name in config else "–" for config in configs] for name in names}
