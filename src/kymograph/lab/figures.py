"""Finding a study's figure by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kymograph.errors import KymographError, did_you_mean
from kymograph.studies.base import list_studies, stored_study
from kymograph.studies.drawing import about

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.runs.store import Store


def figure(name: str, store: Store, style: str | None = None, venue: str | None = None) -> Figure:
    """Returns the figure called ``name`` drawn from ``store``; `kymograph figure --list` lists the names.

    Args:
        name: the figure's name.
        store: the runs to draw it from.
        style: ``notebook``, ``paper`` or ``slides``; default: notebook, or paper if a venue is given.
        venue: where a paper will appear, e.g. ``icml2024``: the figure gets its width and font sizes.
    """
    from kymograph.figures.looks import choose_look, drawing_in

    look = choose_look(style, venue)
    draws = _draws(store)
    if name not in draws:
        raise KymographError(f"these runs have no figure {name!r}{did_you_mean(name, draws)}")
    study, draw = draws[name]
    with drawing_in(look):
        return draw(store.select(study).newest())


def figure_names(store: Store) -> list[str]:
    """Returns the names of the figures that the stored studies have."""
    return list(_draws(store))


def list_figures() -> list[tuple[str, str, str]]:
    """Returns study, name and a line about every figure of the built-in studies, without loading what draws them."""
    return [(study.name, name, about(draw)) for study in list_studies() for name, draw in study.figures().items()]


def figure_from_logs(name: str, paths: Sequence[str], style: str | None = None, venue: str | None = None) -> Figure:
    """Returns a snapshot figure drawn from JSON logs of the snapshot scripts (files, or directories of them)."""
    from kymograph.runs.formats.script_logs import read_logs
    from kymograph.studies.snapshot import figures

    draws = {"snapshot-resmlp": figures.draw_resmlp, "snapshot-vit": figures.draw_vit}
    if name not in draws:
        raise KymographError(f"no figure {name!r} is drawn from logs{did_you_mean(name, draws)}")
    return draws[name](read_logs(paths), style=style, venue=venue)


def file_name(name: str) -> str:
    """Returns the name of a figure's files; the paper figures keep their published names."""
    published = {"snapshot-resmlp": "figure_snapshot_resmlp", "snapshot-vit": "figure_snapshot_vit"}
    return published.get(name, name)


def _draws(store: Store) -> dict[str, tuple[str, Callable[[Store], Figure]]]:
    """Returns every figure of the stored studies; a study that cannot be loaded here has none."""
    draws: dict[str, tuple[str, Callable[[Store], Figure]]] = {}
    for study in store.studies:
        loaded = stored_study(study)
        if loaded is None:
            continue
        draws |= {name: (study, draw) for name, draw in loaded.figures().items()}
    return draws
