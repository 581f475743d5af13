"""A quantity against depth at the start, the middle and the end of training, one curve per arm."""

from __future__ import annotations

import numpy as np

from kymograph.errors import KymographError
from kymograph.figures.arm_looks import arm_looks
from kymograph.figures.curves import stored_displays
from kymograph.figures.layout import legends
from kymograph.figures.log_axes import set_log_y
from kymograph.figures.mathematics import mathtext
from kymograph.figures.scales import geometric_means, is_log
from kymograph.figures.seed_curves import name_bands, seed_curves
from kymograph.figures.style import LabFigure, panel_grid, styled
from kymograph.runs.arrays import LabelledArray
from kymograph.runs.bounds import bounds_of
from kymograph.runs.declaration import Declaration
from kymograph.runs.store import Store

PART = {"about": "a series along depth at the start, middle and end, a curve per arm", "order": 3, "of": "series"}
MOST_NAMES = 12
"""The most sites labelled on the axis."""


@styled
def draw(store: Store, declaration: Declaration, series: str | None = None) -> LabFigure:
    """Draws the series (default: the first that has a value per site) against its sites, a panel per moment.

    Curves are means over seeds with their 95 % interval; on a log axis geometric means, unless some seeds are 0. The
    panels share their vertical axis, so that they can be compared.
    """
    displays = [one for one in stored_displays(store, declaration) if series in (None, one.series)]
    arrays = [(one, store.series(one.series)) for one in displays]
    sited = [(one, array) for one, array in arrays if "site" in array.labels and len(array.labels["site"]) > 1]
    if not sited:
        raise KymographError(f"{declaration.name} has no series with several sites, which a profile needs")
    display, array = min(sited, key=lambda pair: "profile" not in pair[0].forms)  # sites need not be layers
    moments = moments_of(array)
    everything = np.stack([values for _, values in moments])  # (moment, arm, seed, site)
    log = is_log(display, everything)
    geometric = geometric_means(everything, log, axis=2)
    looks = arm_looks(declaration, store.arms)
    figure, grid = panel_grid(len(moments), (3.6, 3.2), 3, least=2.0)
    sites = array.labels["site"]
    for axes in grid[1:]:  # before drawing, so that the limits cover all panels
        axes.sharey(grid[0])
    for axes, (moment, values) in zip(grid, moments, strict=True):
        for index, arm in enumerate(array.labels["arm"]):
            look = looks[arm]
            seed_curves(figure, axes, moment, look.label, np.arange(len(sites)), values[index], array.labels["seed"],
                        look.hex, log, marker="o", dash=look.dashes, geometric=geometric, sites=sites,
                        bounds=bounds_of(display.series, everything, declaration.bounds))  # fmt: skip
        if log:
            set_log_y(axes)
        axes.set_title(moment[:1].upper() + moment[1:])
        axes.set_xlabel(mathtext(str(display.facts.get("sites", "site"))))
        _name_sites(axes, sites)
    grid[0].set_ylabel(mathtext(display.unit))
    name_bands(grid)
    legends(figure, grid)
    figure.entitle(f"{display.title}, along depth")
    return figure


def moments_of(array: LabelledArray) -> list[tuple[str, np.ndarray]]:
    """Returns the values (arm, seed, site) of an array (arm, seed, step, site) at start, middle and end.

    Each arm has its own first and last step with a value; fewer than three steps give fewer moments.
    """
    found: dict[str, np.ndarray] = {}
    most = max((len(_measured(values)) for values in array.values), default=0)
    shares = {1: {"at the end": 1.0}, 2: {"at the start": 0.0, "at the end": 1.0}}.get(
        most, {"at the start": 0.0, "in the middle": 0.5, "at the end": 1.0}
    )
    for moment, share in shares.items():
        values = np.full((array.shape[0], array.shape[1], array.shape[3]), np.nan)
        for index, arm in enumerate(array.values):  # (seed, step, site)
            steps = _measured(arm)
            if len(steps):
                values[index] = arm[:, steps[round(share * (len(steps) - 1))]]
        found[moment] = values
    return list(found.items())


def _measured(values: np.ndarray) -> np.ndarray:
    """Returns the indices of the steps at which some seed and site has a value; ``values`` is (seed, step, site)."""
    return np.flatnonzero((~np.isnan(values)).any(axis=(0, 2)))


def _name_sites(axes: object, sites: tuple) -> None:
    every = -(-len(sites) // MOST_NAMES)
    shown = range(0, len(sites), every)
    names = [mathtext(str(sites[index])) for index in shown]
    rotated = max(len(str(sites[index])) for index in shown) > 4
    axes.set_xticks(list(shown), names, rotation=45 if rotated else 0, ha="right" if rotated else "center")  # type: ignore[attr-defined]
