"""Figures by name: a study's own, and those that any study can have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kymograph.claims.judge import judge
from kymograph.claims.registration import registered_contents
from kymograph.claims.verdict import Verdict
from kymograph.errors import KymographError, did_you_mean
from kymograph.pictures import FIGURES
from kymograph.runs.archive import read_archive
from kymograph.runs.declaration import Declaration, displays_of
from kymograph.runs.history import log_of
from kymograph.runs.spec import slug
from kymograph.runs.store import Store
from kymograph.runs.tuned import Tuned, tuned_study
from kymograph.studies.loading import built_in_studies, declaration_of, list_studies, registered_study
from kymograph.studies.study import Study, StudyFigure, about

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.runs.store import Store


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
        if part.properties.get("of") == "tuning":
            continue
        if part.properties.get("of") == "claims":
            found[name] = functools.partial(_draw_claims, kind, declaration, studies)
            continue
        found[name] = functools.partial(_draw_runs, kind, declaration)
        if part.properties.get("of") == "series":
            for series in _along_depth(store, declaration)[1:]:
                found[f"{name}-{slug(series)}"] = functools.partial(_draw_series, kind, declaration, series)
    return found


def _tuning_figures(store: Store, owner: str, declaration: Declaration) -> dict[str, Draw]:
    """Returns the figures of tuning runs, named after the study that is tuned."""
    rules = declaration_of(owner, store.declarations).tuned
    kinds = [kind for kind, part in FIGURES.parts().items() if part.properties.get("of") == "tuning"]
    return {f"{owner}-{kind}": functools.partial(_draw_tuning, kind, declaration, rules) for kind in kinds}


def claim_figure_names(study: str) -> list[str]:
    """Returns the names of the figures that show verdicts on a study's claims."""
    return [f"{study}-{kind}" for kind, part in FIGURES.parts().items() if part.properties.get("of") == "claims"]


def claim_figures(store: Store, study: str) -> list[str]:
    """Returns the claim figures that fit these runs: none without claims, no grid unless settings vary."""
    if store.root is None or not registered_contents(log_of(store.root), study):
        return []
    settings: dict[str, set[str]] = {}
    for run in store.current().finished:
        settings.setdefault(run.arm, set()).add(run.spec.settings_text)
    varied = any(len(texts) > 1 for texts in settings.values())
    kinds = FIGURES.parts()
    return [
        name
        for name in claim_figure_names(study)
        if varied or not kinds[name.removeprefix(f"{study}-")].properties.get("needs_grid")
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


def figure(
    name: str,
    store: Store,
    style: str | None = None,
    venue: str | None = None,
    studies: Iterable[Study] = (),
    spread: str | None = None,
) -> Figure:
    """Returns the figure called ``name`` drawn from ``store``; `kymograph figure --list` lists the names.

    Args:
        name: the figure's name: a study's own, or ``STUDY-KIND`` for a kind that any study can have.
        store: the runs to draw it from.
        style: ``notebook``, ``paper`` or ``slides``; default: notebook, or paper if a venue is given.
        venue: where a paper will appear, e.g. ``icml2024``: the figure gets its width and font sizes.
        studies: user-defined studies whose own figures can be drawn; the others have the common ones.
        spread: what bands over seeds show, ``interval`` or ``sd``, for figures that offer the choice.
    """
    from kymograph.pictures.styles import choose_style, drawing_in

    chosen_style = choose_style(style, venue)
    users = list(studies)
    draws = [one for own, common in _draws(store, users).values() for one in (common | own).items()]
    found = [draw for key, draw in draws if key == name]
    if not found:
        raise KymographError(f"these runs have no figure {name!r}{did_you_mean(name, dict(draws))}")
    if len(found) > 1:
        owners = " and ".join(study for study, _ in found)
        raise KymographError(f"{owners} each have a figure {name!r}; select the runs of one study")
    study, draw = found[0]
    options = _options(name, draw, spread)
    runs = store.select(study)
    current = runs.current()
    with drawing_in(chosen_style):
        return draw(current if current.runs else runs, **options)  # if all are superseded, they were asked for


def figure_names(store: Store, studies: Iterable[Study] = ()) -> list[str]:
    """Returns the default figures of the stored studies: their own, or the common ones where they have none.

    Figures of verdicts are included for every study with claims.
    """
    names = []
    for study, (own, common) in _draws(store, list(studies)).items():
        of_claims = [name for name in claim_figures(store.select(study), study) if name in common]
        others = own or [name for name in common if name not in claim_figure_names(study)]
        names += [*others, *of_claims]
    return list(dict.fromkeys(names))


def list_figures() -> list[tuple[str, str, str]]:
    """Returns study, name and a line about each figure of the registered studies, and of those that any study has."""
    own = [(study.name, name, about(draw)) for study in list_studies() for name, draw in study.figures().items()]
    return own + [("any study", f"STUDY-{name}", part.about) for name, part in FIGURES.parts().items()]


def figure_from_files(
    name: str, paths: Sequence[str], style: str | None = None, venue: str | None = None, spread: str | None = None
) -> Figure:
    """Returns a figure drawn from files of another program, or directories of them, that its study can read."""
    drawings = {
        key: draw.from_files
        for study in list_studies()
        for key, draw in study.figures().items()
        if isinstance(draw, StudyFigure) and draw.from_files
    }
    if name not in drawings:
        raise KymographError(f"no figure {name!r} is drawn from such files{did_you_mean(name, drawings)}")
    options = _options(name, drawings[name], spread)
    return drawings[name](paths, style=style, venue=venue, **options)


def file_name(name: str, studies: Iterable[Study] = ()) -> str:
    """Returns the name of a figure's files, as ``studies`` or the built-in ones declare it; else the figure's own."""
    for study in (*studies, *built_in_studies()):
        draw = study.figures().get(name)
        if draw is not None:
            return draw.file_name or name if isinstance(draw, StudyFigure) else name
    return name


def file_names(names: Iterable[str], studies: Iterable[Study] = ()) -> dict[str, str]:
    """Returns the name of each figure's files; raises if two figures would write the same files."""
    users = list(studies)
    found: dict[str, str] = {}
    for name in names:
        file = file_name(name, users)
        for other, taken in found.items():
            if taken == file:
                raise KymographError(f"the figures {other!r} and {name!r} would both be written to {file!r}")
        found[name] = file
    return found


def _options(name: str, draw: Callable[..., Figure], spread: str | None) -> dict[str, str]:
    """Returns the options that a figure is drawn with; raises if a spread is asked for that cannot be chosen."""
    if spread is None:
        return {}
    if not (
        draw.accepts("spread") if isinstance(draw, StudyFigure) else "spread" in inspect.signature(draw).parameters
    ):
        raise KymographError(f"the spread that {name} shows cannot be chosen; drop --spread")
    return {"spread": spread}


Draws = dict[str, tuple[str, Callable[..., "Figure"]]]


def _draws(store: Store, studies: Sequence[Study]) -> dict[str, tuple[Draws, Draws]]:
    """Returns, by stored study, its own figures and the common ones."""
    named = {study.name: study for study in studies}
    found: dict[str, tuple[Draws, Draws]] = {}
    for name in store.studies:
        study = named.get(name) or registered_study(name)
        declaration = declaration_of(name, store.declarations)
        own: Draws = {} if study is None else {key: (name, draw) for key, draw in study.figures().items()}
        common: Draws = {
            key: (name, draw) for key, draw in common_figures(store.select(name), declaration, studies).items()
        }
        found[name] = (own, common)
    return found
