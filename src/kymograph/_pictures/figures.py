"""Figures by name: a study's own, and those that any study can have."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kymograph._claims.judge import judge
from kymograph._claims.registration import registered_contents
from kymograph._errors import KymographError, did_you_mean
from kymograph._pictures import FIGURES
from kymograph._pictures.series import displays_of
from kymograph._runs.declaration import Declaration
from kymograph._runs.spec import slug
from kymograph._runs.store import Store
from kymograph._runs.tuned import tuned_study
from kymograph._studies.loading import built_in_studies, declaration_of, list_studies, registered_study
from kymograph._studies.study import Study, StudyFigure, about

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draws = dict[str, Callable[..., "Figure"]]
"""The functions that draw figures from a store, by the figures' names."""


def figure(
    name: str,
    store: Store,
    style: str | None = None,
    venue: str | None = None,
    studies: Iterable[Study[Any]] = (),
    spread: str | None = None,
    family: str | None = None,
    all_sites: bool = False,
) -> Figure:
    """Returns the figure called ``name`` drawn from ``store``; `kymograph figure --list` lists the names.

    >>> drawn = ky.figure("warmup-curves", ky.Store.open("runs"), style="paper")
    >>> drawn.savefig("curves.pdf")

    Args:
        name: the figure's name: a study's own, or ``STUDY-KIND`` for a kind that any study can have.
        store: the runs to draw it from.
        style: ``notebook``, ``paper`` or ``slides``; default: notebook, or paper if a venue is given.
        venue: where a paper will appear, e.g. ``icml2024``: the figure gets its width and font sizes.
        studies: user-defined studies whose own figures can be drawn; the others have the common ones.
        spread: what bands over seeds show, ``interval`` or ``sd``, for figures that offer the choice.
        family: for a kymograph or profiles, only the layers that match this pattern, e.g. ``layers.*.mlp.**``.
        all_sites: for a kymograph or profiles, one map or axis with all layers instead of one per family.
    """
    from kymograph._pictures.styles import choose_style, drawing_in

    chosen_style = choose_style(style, venue)
    draws = {study: common | own for study, (own, common) in _draws(store, list(studies)).items()}
    owners = [study for study, by_name in draws.items() if name in by_name]
    if not owners:
        names = dict.fromkeys(key for by_name in draws.values() for key in by_name)
        raise KymographError(f"these runs have no figure {name!r}{did_you_mean(name, names)}")
    if len(owners) > 1:
        raise KymographError(f"{' and '.join(owners)} each have a figure {name!r}; select the runs of one study")
    draw = draws[owners[0]][name]
    options = _options(name, draw, spread, family, all_sites)
    runs = store.select(owners[0])
    current = runs.current()
    with drawing_in(chosen_style):
        return draw(current if current.runs else runs, **options)  # if all are superseded, they were asked for


def figure_names(store: Store, studies: Iterable[Study[Any]] = ()) -> list[str]:
    """Returns the default figures of the stored studies: their own, or the common ones where they have none.

    Figures of verdicts are included for every study with claims.
    """
    kinds_of_claims = [kind for kind, part in FIGURES.parts().items() if part.properties.get("of") == "claims"]
    names: list[str] = []
    for study, (own, common) in _draws(store, list(studies)).items():
        of_claims = [f"{study}-{kind}" for kind in kinds_of_claims]
        names += own or [name for name in common if name not in of_claims]
        names += [name for name in _claim_figures(store.select(study), study) if name in common]
    return list(dict.fromkeys(names))


def _claim_figures(store: Store, study: str) -> list[str]:
    """Returns the figures of verdicts that fit these runs: none without claims, no grid unless settings vary."""
    if store.directory is None or not registered_contents(store.directory.covering_log, study):
        return []
    settings: dict[str, set[str]] = {}
    for run in store.current().finished:
        settings.setdefault(run.arm, set()).add(run.spec.settings_text)
    varied = any(len(texts) > 1 for texts in settings.values())
    return [
        f"{study}-{kind}"
        for kind, part in FIGURES.parts().items()
        if part.properties.get("of") == "claims" and (varied or not part.properties.get("needs_grid"))
    ]


def _draws(store: Store, studies: Sequence[Study[Any]]) -> dict[str, tuple[Draws, Draws]]:
    """Returns, by stored study, its own figures and the common ones."""
    by_name = {study.name: study for study in studies}
    draws: dict[str, tuple[Draws, Draws]] = {}
    for name in store.studies:
        study = by_name.get(name) or registered_study(name)
        declaration = declaration_of(name, store.declarations)
        own = {} if study is None else dict(study.figures())
        draws[name] = own, _common_figures(store.select(name), declaration, studies)
    return draws


def _common_figures(store: Store, declaration: Declaration, studies: Sequence[Study[Any]]) -> Draws:
    """Returns the functions that draw the common figures of one study's runs, by name.

    A figure of a series is called ``STUDY-KIND`` for the first series, and ``STUDY-KIND-SERIES`` for each further one.
    Figures of tuning runs are named after the study that is tuned.
    """
    tuned = tuned_study(declaration.name)
    draws: Draws = {}
    for kind, part in FIGURES.parts().items():
        of, name = part.properties.get("of"), f"{tuned or declaration.name}-{kind}"
        if (of == "tuning") != (tuned is not None):
            continue
        if tuned is not None:
            draws[name] = functools.partial(_draw, kind, declaration, declaration_of(tuned, store.declarations).tuned)
        elif of == "claims":
            draws[name] = functools.partial(_draw_claims, kind, declaration, studies)
        else:
            draws[name] = functools.partial(_draw, kind, declaration, None)
        if of == "series":
            for series in _along_depth(store, declaration)[1:]:
                draws[f"{name}-{slug(series)}"] = functools.partial(_draw, kind, declaration, series)
    return draws


def _along_depth(store: Store, declaration: Declaration) -> list[str]:
    """Returns the series that have a value per site, as the study declares them or as each arm's first run has them."""
    if declaration.series:
        return [display.series for display in declaration.series if "kymograph" in display.forms]
    firsts = {run.arm: run for run in reversed(store.finished.runs)}
    stored = {name: entry for run in firsts.values() for name, entry in run.series.items()}
    sited = [name for name, entry in stored.items() if entry.sites is not None]
    return [display.series for display in displays_of(declaration, stored, sited) if display.series in sited]


def _draw(kind: str, declaration: Declaration, argument: Any, store: Store, **options: Any) -> Figure:
    """Draws a common figure; ``argument`` is what its kind takes beyond the runs and their declaration, or None."""
    drawn: Figure = FIGURES.load(kind)(store, declaration, *([] if argument is None else [argument]), **options)
    return drawn


def _draw_claims(kind: str, declaration: Declaration, studies: Sequence[Study[Any]], store: Store) -> Figure:
    """Draws the verdicts on a study's claims: on the whole directory if all its runs are here, else on the store."""
    runs: Any = store
    if store.directory is not None:
        whole = store.directory.restricted_to(declaration.name)
        if {run.id for run in whole.store.current()} <= {run.id for run in store}:
            runs = whole
    return _draw(kind, declaration, judge(runs, studies=studies).verdicts, store)


def _options(
    name: str, draw: Callable[..., Figure], spread: str | None, family: str | None = None, all_sites: bool = False
) -> dict[str, Any]:
    """Returns the options that a figure is drawn with; raises if one is asked for that the figure does not take."""
    if family is not None and all_sites:
        raise KymographError("--family draws some layers and --all-sites all of them; drop one")
    if spread is not None and not _takes(draw, "spread"):
        raise KymographError(f"the spread that {name} shows cannot be chosen; drop --spread")
    for option, given in (("family", family is not None), ("all_sites", all_sites)):
        if given and not _takes(draw, option):
            flag = option.replace("_", "-")
            raise KymographError(
                f"{name} does not show layers one by one; drop --{flag}, or draw a kymograph or profiles"
            )
    options = {"spread": spread, "family": family, "all_sites": all_sites or None}
    return {option: value for option, value in options.items() if value is not None}


def _takes(draw: Callable[..., Figure], option: str) -> bool:
    """Returns whether a figure's function takes an option of that name."""
    if isinstance(draw, StudyFigure):
        return draw.accepts(option)
    function: Callable[..., Any] = draw
    if isinstance(draw, functools.partial) and draw.func is _draw:
        function = FIGURES.load(draw.args[0])
    return option in inspect.signature(function).parameters


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
    return drawings[name](paths, style=style, venue=venue, **_options(name, drawings[name], spread))


def file_name(name: str, studies: Iterable[Study[Any]] = ()) -> str:
    """Returns the name of a figure's files, as ``studies`` or the built-in ones declare it; else the figure's own."""
    for study in (*studies, *built_in_studies()):
        draw = study.figures().get(name)
        if draw is not None:
            return draw.file_name or name if isinstance(draw, StudyFigure) else name
    return name


def file_names(names: Iterable[str], studies: Iterable[Study[Any]] = ()) -> dict[str, str]:
    """Returns the name of each figure's files; raises if two figures would write the same files."""
    users = list(studies)
    files: dict[str, str] = {}
    for name in names:
        file = file_name(name, users)
        for other, taken in files.items():
            if taken == file:
                raise KymographError(f"the figures {other!r} and {name!r} would both be written to {file!r}")
        files[name] = file
    return files
