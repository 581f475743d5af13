"""One section of the page per study: its question, arms, headline numbers and charts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kymograph.figures.seed_curves import interval
from kymograph.report.chart import Chart
from kymograph.report.grouping import Look, looks_of, settings_of, time_axis
from kymograph.report.panels.curves import curve_chart, profile_chart
from kymograph.report.panels.kymograph import kymograph_chart
from kymograph.report.panels.nulls import null_chart
from kymograph.report.svg import number
from kymograph.runs.spec import slug
from kymograph.runs.store import Store, StoredRun
from kymograph.studies.base import BUILT_IN, Study, load_study

MOST_HEADLINES = 6


@dataclass(frozen=True)
class Cell:
    """A number of a table: the mean in front, its interval behind."""

    main: str
    rest: str = ""


@dataclass(frozen=True)
class Table:
    """A table of cells, one row per arm."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]


@dataclass(frozen=True)
class ArmRow:
    """What the table of arms says of one arm."""

    name: str
    about: str
    finished: int
    diverged: int
    failed: int
    seeds: str


@dataclass(frozen=True)
class Setting:
    """The runs of a study that share all settings but those of their arms."""

    id: str
    title: str
    """Empty if the study was run with one setting only."""
    arms: tuple[ArmRow, ...]
    seeds: str
    """The seeds, if all arms have the same."""
    apart: Table
    """Settings in which the arms differ; what most arms have stands behind, as lesser."""
    headlines: Table
    audit: Table
    shared: tuple[tuple[str, str], ...]
    """Settings that all arms have in common."""
    charts: tuple[Chart, ...]
    others: tuple[str, ...]
    """Series that are stored but not drawn."""


@dataclass(frozen=True)
class Section:
    """A study on the page."""

    id: str
    name: str
    question: str
    settings: tuple[Setting, ...]


def section_of(store: Store, name: str) -> Section:
    """Returns the section of the study ``name``; a study of one's own shows what its runs hold."""
    # Only built-in names are loaded: a stored name must not be able to import a module.
    study = load_study(name) if name in BUILT_IN else None
    mine = store.select(name)
    base = f"study-{slug(name)}"
    settings = settings_of(mine)
    parts = [
        _setting(f"{base}-{place}" if len(settings) > 1 else base, fields, runs, name, study)
        for place, (fields, runs) in enumerate(settings)
    ]
    return Section(base, name, study.question if study else "", tuple(parts))


def _setting(base: str, fields: Mapping[str, Any], store: Store, name: str, study: Study | None) -> Setting:
    order = [arm.name for arm in study.arms()] if study else []
    arms = sorted(store.arms, key=lambda arm: (order.index(arm) if arm in order else len(order), arm))
    store = store.select(arms=arms)
    about = {arm.name: arm.about for arm in study.arms()} if study else {}
    numeric = [key for key in _keys(store) if not key.startswith(("audit_", "alarm_"))]
    chosen = dict(study.headlines) if study else {key: key for key in numeric[:MOST_HEADLINES]}
    audits = {key: key.replace("_", " ") for key in _keys(store) if key.startswith(("audit_", "alarm_"))}
    rows = tuple(_arm_row(store, arm, about.get(arm, "")) for arm in arms)
    charts, others = _charts(base, store.finished, name)
    return Setting(
        base,
        ", ".join(f"{field}: {value}" for field, value in fields.items()),
        rows,
        rows[0].seeds if len({row.seeds for row in rows}) == 1 else "",
        _apart(store, arms),
        _table(store.finished, arms, {key: text for key, text in chosen.items() if key in numeric}),
        _table(store.finished, arms, audits),
        _shared(store),
        charts,
        others,
    )


def _keys(store: Store) -> list[str]:
    """Returns the summary's keys that are numbers in some run."""
    found = {
        key
        for run in store.finished
        for key, value in run.summary.items()
        if isinstance(value, int | float) and key != "finite"
    }
    return sorted(found)


def _arm_row(store: Store, arm: str, about: str) -> ArmRow:
    runs = store.select(arms=[arm])
    diverged = sum(run.summary.get("finite") is False for run in runs.finished)
    seeds = ", ".join(map(str, sorted(runs.finished.seeds)))
    return ArmRow(arm, about, len(runs.finished), diverged, len(runs.failed), seeds)


def _table(store: Store, arms: Sequence[str], columns: Mapping[str, str]) -> Table:
    rows = []
    for arm in arms:
        runs = store.select(arms=[arm]).runs
        rows.append((arm, tuple(_cell([run.summary.get(key) for run in runs]) for key in columns)))
    return Table(tuple(columns.values()), tuple(rows) if columns else ())


def _cell(values: Sequence[Any]) -> Cell:
    """Returns the mean and its 95 % interval over seeds; of truths, how often."""
    there = [value for value in values if isinstance(value, int | float) and math.isfinite(value)]
    if not there:
        return Cell("–")
    if all(isinstance(value, bool) for value in there):
        return Cell(f"{sum(there)} of {len(there)}")
    mean, low, high = (float(part[0]) for part in interval(np.array(there, dtype=np.float64)[:, None], log=False))
    left_out = f" ({len(there)} of {len(values)} seeds)" if len(there) < len(values) else ""
    spread = "" if math.isnan(low) or low == high else f"[{number(low, 3)}, {number(high, 3)}]"
    return Cell(number(mean, 3), f"{spread}{left_out}".strip())


def _shared(store: Store) -> tuple[tuple[str, str], ...]:
    return tuple((name, values[0]) for name, values in _values(store).items() if len(set(values)) == 1)


def _apart(store: Store, arms: Sequence[str]) -> Table:
    # All runs of an arm have the same settings here, and a row is one arm, however many seeds it has.
    first = [next(run for run in store if run.arm == arm) for arm in arms]
    columns = {name: values for name, values in _values(first).items() if len(set(values)) > 1}
    usual = {
        name: value for name, values in columns.items() for value in set(values) if 2 * values.count(value) > len(arms)
    }
    rows = []
    for place, arm in enumerate(arms):
        own = ((values[place], usual.get(name)) for name, values in columns.items())
        rows.append((arm, tuple(Cell("", value) if value == most else Cell(value) for value, most in own)))
    return Table(tuple(columns), tuple(rows) if columns else ())


def _values(runs: Iterable[StoredRun]) -> dict[str, list[str]]:
    """Returns every setting's value in each run, as text."""
    configs = [run.config for run in runs]
    names = sorted({name for config in configs for name in config})
    return {name: [str(config[name]) if name in config else "–" for config in configs] for name in names}


def _charts(base: str, store: Store, name: str) -> tuple[tuple[Chart, ...], tuple[str, ...]]:
    names = sorted({series for run in store for series in run.series})
    sited = {series for run in store for series, entry in run.series.items() if entry.sites is not None}
    looks = looks_of(name, names, sited)
    # Small pictures stand together, so that they share rows.
    order = ("nulls", "curves", "kymograph", "profile")
    wanted = sorted(((look, form) for look in looks for form in look.forms), key=lambda pair: order.index(pair[1]))
    charts = [_chart(base, store, name, look, form) for look, form in wanted]
    drawn = {look.series for look in looks}
    return tuple(chart for chart in charts if chart is not None), tuple(n for n in names if n not in drawn)


def _chart(base: str, store: Store, study: str, look: Look, form: str) -> Chart | None:
    chart_id, time = f"{base}-{slug(look.series)}-{form}", time_axis(study)
    if form == "nulls":
        return null_chart(chart_id, store, look)
    array = store.series(look.series)
    if look.site is not None:
        if look.site not in array.labels.get("site", ()):
            return None
        array = array.sel(site=look.site)
    if form == "curves":
        return curve_chart(chart_id, study, array, look, time) if len(array.labels["step"]) > 1 else None
    if "site" not in array.labels:
        return None
    if form == "profile":
        return profile_chart(chart_id, study, array, look, time)
    return kymograph_chart(chart_id, array, look, time) if len(array.labels["step"]) > 1 else None
