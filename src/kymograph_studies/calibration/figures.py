"""The study's figure: densities of the deep mean cosine under its nulls, with the observed values marked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kymograph import KymographError, Store
from kymograph.figures import COLOURS, LabFigure, legends, panel_grid, stroke, styled
from kymograph.studies import StudyFigure
from kymograph_studies.analysis import REFERENCE, null_label
from kymograph_studies.calibration import Calibration

_RIDGE = 0.9  # the height of a ridge on paper; the rest is the distance to the next one
SHOWN = (REFERENCE, "rows", "columns")
"""The nulls in the figure: those that preserve what images share. The others are too narrow to draw next to them."""


@styled
def draw_histograms(panels: Sequence[tuple[str, Mapping[str, np.ndarray], Sequence[float]]]) -> LabFigure:
    """Draws one panel per (title, null draws by name, observed values): a ridge per null, a line per observed value.

    Each density is scaled to its own peak, because narrow nulls would otherwise flatten the wide ones.
    """
    figure, grid = panel_grid(len(panels), (4.4, 3.2), 3, least=2.2)
    for axes, (title, nulls, observed) in zip(grid, panels, strict=True):
        bases = range(len(nulls) - 1, -1, -1)  # the first null on top
        for (name, values), colour, base in zip(nulls.items(), COLOURS[2:], bases, strict=False):
            heights, edges = np.histogram(values, bins=40)
            ridge = base + _RIDGE * heights / heights.max()
            axes.stairs(ridge, edges, baseline=base, fill=True, alpha=0.45, color=colour)
            axes.stairs(ridge, edges, baseline=base, color=colour, linewidth=stroke(0.5))
            figure.note(("panel", "what", "value"), [(title, f"null {name}", value) for value in values.tolist()])
        for index, value in enumerate(observed):
            label = f"the network's own B (n = {len(observed)} seeds)" if index == 0 else None
            axes.axvline(value, color=COLOURS[1], linewidth=stroke(), label=label)
            figure.note(("panel", "what", "value"), [(title, "observed", value)])
        shown = np.concatenate([*nulls.values(), np.asarray(observed)])
        axes.update_datalim([(shown.min(), 0.0), (shown.max(), 1.0)])  # a line alone would coincide with the frame
        axes.autoscale_view()
        axes.set_ylim(0.0, len(nulls))
        drawn = [f"{null_label(name)}\n(n = {len(values):,})" for name, values in nulls.items()]
        cell = axes.get_subplotspec()
        first = cell is None or cell.is_first_col()
        axes.set_yticks([base + _RIDGE / 2 for base in bases], drawn if first else [""] * len(drawn))
        axes.tick_params(axis="y", length=0)
        axes.set_title(title)
        axes.set_xlabel("mean cosine of credit and gradient")
        if first:
            axes.set_ylabel("null (density over n draws, peak = 1)")
    legends(figure, grid)
    return figure


@styled
def histograms(store: Store) -> LabFigure:
    """Draws, per arm, the nulls `SHOWN` of the deep mean over all seeds, and each seed's own cosine."""
    chosen = store.select("calibration").finished
    if not chosen.runs:
        raise KymographError("there is no finished run of calibration; run `kymograph run calibration`")
    label = Calibration().declaration().label
    panels = []
    for arm in chosen.arms:
        runs = chosen.select(arms=[arm])
        nulls = {name: np.concatenate([run.series[f"null_{name}"].value[:, -1] for run in runs]) for name in SHOWN}
        observed = [float(run.summary["deep_cosine"]) for run in runs]
        panels.append((f"{label(arm)}, deep layers", nulls, observed))
    return draw_histograms(panels)


FIGURES = {
    "calibration": StudyFigure(histograms, "nulls of the deep mean cosine, by arm, and the cosine of every seed"),
}
"""The study's figures by name."""
