"""The figures that any study has: of its runs, of each of its series along depth, and of the verdicts on its claims."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from kymograph.claims.logged import registered_contents
from kymograph.claims.verdict import Verdict
from kymograph.figures import FIGURES
from kymograph.lab.judge import judge
from kymograph.lab.select_runs import read_archive
from kymograph.runs.declaration import Declaration, displays_of
from kymograph.runs.planned import log_of
from kymograph.runs.spec import slug
from kymograph.runs.store import Store
from kymograph.runs.tuned import Tuned, tuned_study
from kymograph.studies.base import Study
from kymograph.studies.loading import declaration_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[[Store], "Figure"]


def common_figures(store: Store, declaration: Declaration, studies: Sequence[Study] = ()) -> dict[str, Draw]:
    """Returns the functions that draw the common figures of one study's runs, by name.

    A figure of a series is called ``STUDY-KIND`` for the first series, and ``STUDY-KIND-SERIES`` for each further one.
    """
    owner = tuned_study(declaration.name)
    if owner is not None:
        return _tuning_figures(store, owner, declaration)
    found: dict[str, Draw] = {}
    for kind, part in FIGURES.parts().items():
        name = f"{declaration.name}-{kind}"
        if part.facts.get("of") == "tuning":
            continue
        if part.facts.get("of") == "claims":
            found[name] = functools.partial(_draw_claims, kind, declaration, studies)
            continue
        found[name] = functools.partial(_draw_runs, kind, declaration)
        if part.facts.get("of") == "series":
            for series in _along_depth(store, declaration)[1:]:
                found[f"{name}-{slug(series)}"] = functools.partial(_draw_series, kind, declaration, series)
    return found


def _tuning_figures(store: Store, owner: str, declaration: Declaration) -> dict[str, Draw]:
    """Returns the figures of tuning runs, named after the study that is tuned."""
    rules = declaration_of(owner, store.declarations).tuned
    kinds = [kind for kind, part in FIGURES.parts().items() if part.facts.get("of") == "tuning"]
    return {f"{owner}-{kind}": functools.partial(_draw_tuning, kind, declaration, rules) for kind in kinds}


def claim_figure_names(study: str) -> list[str]:
    """Returns the names of the figures that show verdicts on a study's claims."""
    return [f"{study}-{kind}" for kind, part in FIGURES.parts().items() if part.facts.get("of") == "claims"]


def claim_figures(store: Store, study: str) -> list[str]:
    """Returns the claim figures that fit these runs: none without claims, no grid unless settings vary."""
    if store.root is None or not registered_contents(log_of(store.root), store.root, study):
        return []
    settings: dict[str, set[str]] = {}
    for run in store.current().finished:
        settings.setdefault(run.arm, set()).add(run.spec.settings_text)
    varied = any(len(texts) > 1 for texts in settings.values())
    kinds = FIGURES.parts()
    return [
        name
        for name in claim_figure_names(study)
        if varied or not kinds[name.removeprefix(f"{study}-")].facts.get("needs_grid")
    ]


def verdicts_on(store: Store, study: str, studies: Sequence[Study] = ()) -> Sequence[Verdict]:
    """Returns the verdicts on a study's claims: on the whole directory if all its runs are here, else on the store."""
    if store.root is not None:
        archive = read_archive(store.root, study)
        if {run.id for run in archive.store.current()} <= {run.id for run in store}:
            return judge(archive, studies=studies).verdicts
    return judge(store, studies=studies).verdicts


def _along_depth(store: Store, declaration: Declaration) -> list[str]:
    """Returns the series that have a value per site, as the study declares them or as each arm's first run has them."""
    if declaration.series:
        return [one.series for one in declaration.series if "kymograph" in one.forms]
    firsts = {run.arm: run for run in reversed(store.finished.runs)}
    stored = {name: entry for run in firsts.values() for name, entry in run.series.items()}
    sited = [name for name, entry in stored.items() if entry.sites is not None]
    return [one.series for one in displays_of(declaration, stored, sited) if one.series in sited]


def _draw_runs(kind: str, declaration: Declaration, store: Store) -> Figure:
    return FIGURES.load(kind)(store, declaration)


def _draw_series(kind: str, declaration: Declaration, series: str, store: Store) -> Figure:
    return FIGURES.load(kind)(store, declaration, series)


def _draw_tuning(kind: str, declaration: Declaration, rules: Mapping[str, Tuned], store: Store) -> Figure:
    return FIGURES.load(kind)(store, declaration, rules)


def _draw_claims(kind: str, declaration: Declaration, studies: Sequence[Study], store: Store) -> Figure:
    return FIGURES.load(kind)(store, declaration, verdicts_on(store, declaration.name, studies))
