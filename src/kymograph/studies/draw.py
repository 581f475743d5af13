"""Finding a study's figure by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kymograph.errors import KymographError, did_you_mean
from kymograph.studies.study import load_study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kymograph.runs.store import Store


def figure(name: str, store: Store) -> Figure:
    """Returns the figure called ``name`` drawn from ``store``; `kymograph figure --list` lists the names."""
    draws = {key: (study, draw) for study in store.studies for key, draw in load_study(study).figures().items()}
    if name not in draws:
        raise KymographError(f"these runs have no figure {name!r}{did_you_mean(name, draws)}")
    study, draw = draws[name]
    return draw(store.select(study))


def figure_names(store: Store) -> list[str]:
    """Returns the names of the figures that the stored studies have."""
    return [name for study in store.studies for name in load_study(study).figures()]
