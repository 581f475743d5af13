"""One section of the page per study: its question, arms, tables and charts, as the study declares them.

Charts are drawn by kinds of panel, functions ``draw(request: ChartRequest) -> Chart | None`` (None if there is nothing
to draw) that are found by name; their properties are ``about`` and ``order``, in which charts appear. A study names the
kinds it wants in ``SeriesDisplay.forms``; anything else that a kind needs is in ``SeriesDisplay.options``. A kind with
the property ``"scope": "study"`` compares the settings of a study. No study names it: it is drawn once per study, from
all its current runs, with the study's headline numbers as ``options["headlines"]``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kymograph._errors import KymographError
from kymograph._pictures.report_page.charts import Chart, ChartRequest
from kymograph._pictures.report_page.tables import (
    NO_NOTES,
    Table,
    declared_tables,
    differing_settings,
    headline_table,
    shared_settings,
)
from kymograph._pictures.series import displays_of
from kymograph._pictures.styles import ArmStyle, arm_styles
from kymograph._registry import Registry
from kymograph._runs.declaration import OVER_DEPTH, Declaration, SeriesDisplay
from kymograph._runs.history import current_code
from kymograph._runs.spec import slug
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.summaries import collected_notes, count_diverged

_CODE = ("study version", "study source")


@dataclass(frozen=True)
class SettingGroup:
    """Runs of one study that share every setting but those that distinguish their arms."""

    title: str
    """The settings that distinguish these runs from the study's others; empty if there are no others."""
    store: Store
    superseded: bool = False
    """Whether the runs were computed by an earlier version or source of the study."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The same settings, by name."""


def group_settings(store: Store, declarations: Mapping[str, Declaration]) -> list[SettingGroup]:
    """Returns a study's runs, grouped by the settings that vary within some arm, e.g. two tasks.

    Runs superseded by a newer version or source of the study follow in separate groups.
    """
    code = current_code((run.spec for run in store), declarations)
    groups = []
    for superseded in (False, True):
        runs = [run for run in store if code[run.study].made(run.spec) is not superseded]
        for settings, members in _by_settings(runs, _CODE if superseded else ()):
            texts = [f"{name}: {value}" for name, value in settings.items() if name not in _CODE or value is not None]
            title = ", ".join(["superseded", *texts] if superseded else texts)
            groups.append(SettingGroup(title, Store(members, store.root), superseded, settings))
    return groups


def _by_settings(runs: Sequence[StoredRun], always: Collection[str]) -> list[tuple[dict[str, Any], list[StoredRun]]]:
    """Returns groups of runs, each with the settings that vary within some arm and those in ``always``."""
    alike: dict[tuple[Any, ...], list[StoredRun]] = {}
    for run in runs:  # the seeds of an arm share their settings
        alike.setdefault((run.arm, run.spec.settings_text, run.spec.version, run.spec.source), []).append(run)
    settings = {key: {**members[0].config, **dict(zip(_CODE, key[2:], strict=True))} for key, members in alike.items()}
    by_arm: dict[str, list[dict[str, Any]]] = {}
    for (arm, *_), values in settings.items():
        by_arm.setdefault(arm, []).append(values)
    varied = set(always)
    for several in by_arm.values():
        names = {name for values in several for name in values}
        varied |= {name for name in names if len({repr(values.get(name)) for values in several}) > 1}
    groups: dict[tuple[str, ...], tuple[dict[str, Any], list[StoredRun]]] = {}
    for key, members in alike.items():
        # A setting missing from a record had its default; such runs come first.
        chosen = {name: settings[key].get(name, "its default") for name in sorted(varied)}
        rank = tuple(repr(settings[key][name]) if name in settings[key] else "" for name in chosen)
        groups.setdefault(rank, (chosen, []))[1].extend(members)
    return [groups[rank] for rank in sorted(groups)]


PANELS = Registry("kymograph.panels", "kymograph._pictures.report_page", "draw")
MOST_DRAWN = 12
"""The most settings of a study that get charts; a page with hundreds of them would be too large to open."""


@dataclass(frozen=True)
class ArmRow:
    """One arm's row in the table of arms."""

    name: str
    label: str
    style: ArmStyle
    about: str
    finished: int
    diverged: str
    """How many runs diverged, and when; empty if none did."""
    failed: int
    seeds: str


@dataclass(frozen=True)
class Setting:
    """The runs of a study that share all settings but those of their arms."""

    id: str
    title: str
    """Empty if the study was run at one setting only."""
    arms: tuple[ArmRow, ...]
    seeds: str
    """The seeds, if all arms share them; else empty."""
    differing: Table
    """Settings in which the arms differ."""
    headlines: Table
    tables: tuple[tuple[str, Table], ...]
    """Further tables that the study declares, with their titles."""
    shared: tuple[tuple[str, str], ...]
    """Settings that all arms have in common."""
    charts: tuple[Chart, ...]
    undrawn: tuple[str, ...]
    """Series that are stored but not drawn."""
    notes: tuple[str, ...]
    """Why declared panels, or all charts, are not drawn."""
    remarks: tuple[str, ...] = ()
    """The runs' notes, e.g. where their random numbers came from."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The settings that distinguish these runs from the study's others."""
    superseded: bool = False
    """Whether the runs were computed by an earlier version or source of the study."""

    @property
    def chart_groups(self) -> list[list[Chart]]:
        """The charts in order, with charts that belong together in one group."""
        groups: list[list[Chart]] = []
        for chart in self.charts:
            if chart.together and groups and groups[-1][0].together == chart.together:
                groups[-1].append(chart)
            else:
                groups.append([chart])
        return groups


@dataclass(frozen=True)
class Section:
    """A study on the page."""

    id: str
    name: str
    question: str
    settings: tuple[Setting, ...]
    charts: tuple[Chart, ...] = ()
    """Charts that compare the settings."""
    notes: tuple[str, ...] = ()
    """Why some of these charts could not be drawn."""


def section_of(
    store: Store,
    declaration: Declaration,
    judged: Sequence[Mapping[str, Any]] = (),
    column_notes: Mapping[str, str] = NO_NOTES,
) -> Section:
    """Returns a study's section; a study that declares nothing shows whatever its runs hold.

    At most `MOST_DRAWN` settings get charts, those that verdicts rest on first; ``judged`` are the settings that the
    verdicts name. ``column_notes``, below the tables, come from the study's code.
    """
    base = f"study-{slug(declaration.name)}"
    groups = group_settings(store.select(declaration.name), {declaration.name: declaration})

    def was_judged(group: SettingGroup) -> bool:
        return any(has_settings(group.settings, named, declaration) for named in judged)

    drawn = {id(group) for group in sorted(groups, key=lambda group: not was_judged(group))[:MOST_DRAWN]}
    settings = [
        _setting(f"{base}-{index}" if len(groups) > 1 else base, group, declaration, column_notes, id(group) in drawn)
        for index, group in enumerate(groups)
    ]
    charts, notes = _drawn(_study_requests(base, groups, declaration))
    return Section(base, declaration.name, declaration.question, tuple(settings), tuple(charts), notes)


def has_settings(settings: Mapping[str, Any], named: Mapping[str, Any], declaration: Declaration) -> bool:
    """Returns whether runs with ``settings`` match those ``named`` by a verdict, or else the defaults."""
    usual = declaration.defaults.shared
    return all(str(value) == str(named.get(name, usual.get(name))) for name, value in settings.items())


def _setting(
    base: str, group: SettingGroup, declaration: Declaration, column_notes: Mapping[str, str], drawn: bool
) -> Setting:
    about = {arm.name: arm.about for arm in declaration.arms}
    order = {arm.name: index for index, arm in enumerate(declaration.arms)}
    arms = sorted(group.store.arms, key=lambda arm: order.get(arm, len(order)))  # undeclared arms in run order
    store = group.store.select(arms=arms)
    styles = arm_styles(declaration, arms)
    rows = tuple(_arm_row(store, arm, styles[arm], about.get(arm, "")) for arm in arms)
    finished = store.finished
    names = sorted({name for run in finished for name in run.series}) if drawn else []
    charts, notes = _drawn(_requests(base, finished, declaration, names))
    if not drawn:
        where = " ".join(f"{name}={value}" for name, value in group.settings.items() if " " not in name)
        notes = (f"a page has charts for {MOST_DRAWN} settings; `kymograph figure --where {where}` draws these",)
    shown = {name for chart in charts for name in chart.series}
    return Setting(
        id=base,
        title=group.title,
        arms=rows,
        seeds=rows[0].seeds if len({row.seeds for row in rows}) == 1 else "",
        differing=differing_settings(store, arms),
        headlines=headline_table(store, arms, declaration, column_notes),
        tables=declared_tables(store, arms, declaration, column_notes),
        shared=shared_settings(store),
        charts=tuple(charts),
        undrawn=tuple(name for name in names if name not in shown),
        notes=notes,
        remarks=tuple(collected_notes(finished.runs)),
        settings=group.settings,
        superseded=group.superseded,
    )


def _arm_row(store: Store, arm: str, style: ArmStyle, about: str) -> ArmRow:
    runs = store.select(arms=[arm])
    diverged = count_diverged(runs.finished)
    seeds = ", ".join(map(str, sorted(runs.finished.seeds)))
    return ArmRow(arm, style.label, style, about, len(runs.finished), diverged, len(runs.failed), seeds)


def _drawn(requests: Iterator[tuple[str, ChartRequest]]) -> tuple[list[Chart], tuple[str, ...]]:
    """Returns the charts, each with the series it shows, and why others could not be drawn."""
    charts: list[Chart] = []
    notes: list[str] = []
    for form, request in requests:
        try:
            chart = PANELS.load(form)(request)
        except KymographError as error:
            notes.append(str(error))
            continue
        if chart is not None:
            together = request.display.series if form in OVER_DEPTH else ""
            series = (request.display.series, *chart.series)
            charts.append(replace(chart, together=together, series=series))
    return charts, tuple(dict.fromkeys(notes))


def _study_requests(
    base: str, groups: Sequence[SettingGroup], declaration: Declaration
) -> Iterator[tuple[str, ChartRequest]]:
    """Yields a request per kind of panel with ``scope`` ``study``, which compares settings over all current runs."""
    runs = [run for group in groups if not group.superseded for run in group.store.finished]
    if not runs:
        return
    display = SeriesDisplay("", declaration.name, "", options={"headlines": dict(declaration.headlines)})
    for form, part in PANELS.parts().items():
        if part.properties.get("scope") == "study":
            store = Store(runs, groups[0].store.root)
            yield form, ChartRequest(f"{base}-{slug(form)}", store, display, declaration)


def _requests(
    base: str, store: Store, declaration: Declaration, names: list[str]
) -> Iterator[tuple[str, ChartRequest]]:
    """Yields every declared form of every stored series, with the request for its chart.

    Forms are in the order that the kinds of panel declare, so that small pictures share rows, except that the forms of
    one series along depth stay together.
    """
    sited = {name for run in store for name, series in run.series.items() if series.sites is not None}
    order = {form: index for index, form in enumerate(PANELS.names())}
    displays = displays_of(declaration, names, sited)
    wanted = [(form, index) for index, display in enumerate(displays) for form in display.forms]

    def key(pair: tuple[str, int]) -> tuple[int, int, int]:
        form, index = pair
        partners = [other for other in displays[index].forms if other in OVER_DEPTH] if form in OVER_DEPTH else [form]
        rank = order.get(form, len(order))
        return min(order.get(other, len(order)) for other in partners), index, rank

    ids: Counter[str] = Counter()
    for form, index in sorted(wanted, key=key):
        display = displays[index]
        chart_id = f"{base}-{slug(display.series)}-{slug(form)}"
        ids[chart_id] += 1
        if ids[chart_id] > 1:  # e.g. one series at two sites
            chart_id += f"-{ids[chart_id]}"
        yield form, ChartRequest(chart_id, store, display, declaration)
