"""Every declared series of a study over training: a panel per series, a curve per arm."""

from __future__ import annotations

import numpy as np

from kymograph.errors import KymographError
from kymograph.figures.arm_looks import arm_looks
from kymograph.figures.layout import legends
from kymograph.figures.log_axes import set_log_y
from kymograph.figures.scales import geometric_means, is_log
from kymograph.figures.seed_curves import name_bands, seed_curves
from kymograph.figures.style import LabFigure, label_panel, panel_grid, styled
from kymograph.runs.arrays import LabelledArray
from kymograph.runs.bounds import bounds_of
from kymograph.runs.declaration import Declaration, SeriesDisplay, displays_of
from kymograph.runs.store import Store

PART = {"about": "every series over training, a panel per series and a curve per arm", "order": 1}
MOST_PANELS = 12


@styled
def draw(store: Store, declaration: Declaration) -> LabFigure:
    """Draws the declared series (or all that have one value per step), with mean and interval over seeds."""
    panels = [(display, array) for display in stored_displays(store, declaration) if (array := _curve(store, display))]
    if not panels:
        raise KymographError(f"no series of {declaration.name} has one value per step to draw over training")
    panels = panels[:MOST_PANELS]
    looks = arm_looks(declaration, store.arms)
    figure, grid = panel_grid(len(panels), (5.2, 3.4), 2, least=2.2)
    for axes, (display, array) in zip(grid, panels, strict=True):
        log = is_log(display, array.values)
        geometric = geometric_means(array.values, log, axis=1)
        for arm in array.labels["arm"]:
            look = looks[arm]
            values = array.sel(arm=arm).values
            x = np.array(array.labels["step"])
            alone = np.isfinite(values).any(axis=0).sum() == 1  # a line through one point would not show
            seed_curves(figure, axes, display.title, look.label, x, values, array.labels["seed"],
                        look.hex, log, display.bin_by, marker="o" if alone else None,
                        dash=look.dashes, geometric=geometric,
                        bounds=bounds_of(display.series, array.values, declaration.bounds))  # fmt: skip
        if log:
            set_log_y(axes)
        label_panel(axes, display.title, declaration.time, display.unit)
    name_bands(grid)
    legends(figure, grid)
    figure.entitle(declaration.question or declaration.name)
    return figure


def stored_displays(store: Store, declaration: Declaration) -> list[SeriesDisplay]:
    """Returns how the series of stored runs are shown: as the study declares, or each under its own name."""
    stored = {name: entry for run in store.finished for name, entry in run.series.items()}
    return displays_of(declaration, stored, [name for name, entry in stored.items() if entry.sites is not None])


def _curve(store: Store, display: SeriesDisplay) -> LabelledArray | None:
    """Returns the series with axes (arm, seed, step); None if it has several sites, or a single step."""
    if "curves" not in display.forms:
        return None
    array = store.series(display.series)
    if "site" in array.labels:
        if display.site not in array.labels["site"]:
            return None
        array = array.sel(site=display.site)
    return array if len(array.labels["step"]) > 1 else None
