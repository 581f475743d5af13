"""Figures by name: a study's own, and those that any study can have."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kymograph.errors import KymographError, did_you_mean
from kymograph.figures import FIGURES
from kymograph.lab.common_figures import claim_figure_names, claim_figures, common_figures
from kymograph.studies.base import Study
from kymograph.studies.drawing import Drawing, about
from kymograph.studies.loading import built_in_studies, declaration_of, list_studies, registered_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.runs.store import Store


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
    from kymograph.figures.looks import choose_look, drawing_in

    look = choose_look(style, venue)
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
    with drawing_in(look):
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


def figure_from_logs(
    name: str, paths: Sequence[str], style: str | None = None, venue: str | None = None, spread: str | None = None
) -> Figure:
    """Returns a figure drawn from JSON logs of the research scripts (files, or directories of them)."""
    from kymograph.runs.formats.script_logs import read_logs

    drawings = {
        key: draw
        for study in list_studies()
        for key, draw in study.figures().items()
        if isinstance(draw, Drawing) and draw.from_logs
    }
    if name not in drawings:
        raise KymographError(f"no figure {name!r} is drawn from logs{did_you_mean(name, drawings)}")
    options = _options(name, drawings[name], spread)
    return drawings[name].draw_logs(read_logs(paths), style=style, venue=venue, **options)


def file_name(name: str, studies: Iterable[Study] = ()) -> str:
    """Returns the name of a figure's files, as ``studies`` or the built-in ones declare it; else the figure's own."""
    for study in (*studies, *built_in_studies()):
        draw = study.figures().get(name)
        if draw is not None:
            return draw.file_name or name if isinstance(draw, Drawing) else name
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
    if not (draw.accepts("spread") if isinstance(draw, Drawing) else "spread" in inspect.signature(draw).parameters):
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
