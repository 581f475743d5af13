"""The ladder: accuracy against the number of last blocks that learn."""

from __future__ import annotations

import numpy as np

from kymograph import KymographError, Store
from kymograph.figures import LabFigure, arm_styles, legends, name_bands, seed_curves, styled
from kymograph.studies import StudyFigure
from kymograph_studies.audit import Audit


@styled
def ladder(store: Store) -> LabFigure:
    """Draws test accuracy over the number of trainable last blocks, a curve per rule."""
    runs = store.select("audit").finished
    if not runs.runs:
        raise KymographError("there is no finished run of audit; run `kymograph run audit`")
    figure = LabFigure(figsize=(5.0, 3.6), layout="constrained")
    axes = figure.subplots()
    rungs = np.array(sorted({int(run.config["last"]) for run in runs}))
    styles = arm_styles(Audit().declaration())
    for rule in dict.fromkeys(str(run.config["rule"]) for run in runs):
        accuracy = {(run.seed, run.config["last"]): run.summary["test_accuracy"] for run in runs.where(rule=rule)}
        seeds = tuple(dict.fromkeys(seed for seed, _ in accuracy))
        values = np.array([[accuracy.get((seed, rung), np.nan) for rung in rungs] for seed in seeds], dtype=np.float64)
        colour = styles[f"{rule}/last0"].hex
        seed_curves(figure, axes, "ladder", rule.upper(), rungs, values, seeds, colour, False, marker="o")
    axes.set_xlabel("number of trainable last blocks")
    axes.set_ylabel("test accuracy")
    axes.set_xticks(rungs)
    name_bands([axes])
    legends(figure, [axes])
    return figure


FIGURES = {
    "audit-ladder": StudyFigure(ladder, "test accuracy over the number of last blocks that learn, by rule"),
}
"""The study's figures by name."""
