"""The tables of a study's section: numbers over seeds, and settings in which the arms differ."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kymograph.report.svg import number
from kymograph.runs.headlines import headline_number
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun

MOST_HEADLINES = 6
"""The most summary numbers shown of a study that declares no headlines."""
AUDIT_PREFIXES = ("audit_", "alarm_")
"""Summary numbers that an audit of a trained network adds; they have a table of their own."""


@dataclass(frozen=True)
class Cell:
    """A table's cell: ``main`` in the colour of text, ``rest`` behind it in grey."""

    main: str
    rest: str = ""


@dataclass(frozen=True)
class Table:
    """A table of cells, one row per arm."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


def headline_table(store: Store, arms: Sequence[str], headlines: Mapping[str, str]) -> Table:
    """Returns the mean over seeds and its 95 % interval of every headline number, or of the first few numbers."""
    keys = numeric_keys(store)
    undeclared = [key for key in keys if not key.startswith(AUDIT_PREFIXES)][:MOST_HEADLINES]
    chosen = headlines or {key: key for key in undeclared}
    return _number_table(store, arms, {key: label for key, label in chosen.items() if key in keys})


def audit_table(store: Store, arms: Sequence[str]) -> Table:
    """Returns the numbers of the audits of trained networks: a mean over seeds, or how often an alarm was active."""
    keys = [key for key in numeric_keys(store) if key.startswith(AUDIT_PREFIXES)]
    return _number_table(store, arms, {key: key.replace("_", " ") for key in keys})


def numeric_keys(store: Store) -> list[str]:
    """Returns the summary's keys that are numbers in some finished run."""
    found = {
        key
        for run in store.finished
        for key, value in run.summary.items()
        if isinstance(value, int | float) and key != "finite"
    }
    return sorted(found)


def _number_table(store: Store, arms: Sequence[str], columns: Mapping[str, str]) -> Table:
    rows = []
    for arm in arms:
        runs = store.finished.select(arms=[arm]).runs
        rows.append((arm, tuple(number_cell([run.summary.get(key) for run in runs]) for key in columns)))
    return Table(tuple(columns.values()), tuple(rows) if columns else ())


def number_cell(values: Sequence[Any]) -> Cell:
    """Returns the mean and its 95 % interval over seeds; for truth values, how many are true."""
    found = headline_number(values)
    if found.n == 0:
        return Cell("–")
    if found.true is not None:
        return Cell(f"{found.true} of {found.n}")
    spread = f"[{number(found.low, 3)}, {number(found.high, 3)}]" if found.has_spread else ""
    missing = f" ({found.n} of {len(values)} seeds)" if found.missing else ""
    return Cell(number(found.mean, 3), f"{spread}{missing}".strip())


def shared_settings(store: Store) -> tuple[tuple[str, str], ...]:
    """Returns the settings that all runs have in common, with their values."""
    return tuple((name, values[0]) for name, values in _setting_values(store).items() if len(set(values)) == 1)


def differing_settings(store: Store, arms: Sequence[str]) -> Table:
    """Returns the settings in which the arms differ; a value that most arms have is in grey."""
    # All runs of an arm have the same settings here, and a row is one arm, however many seeds it has.
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
