"""The figure of tuning: how each arm's setting was chosen."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes

from kymograph._claims.tuning import Choice, choose
from kymograph._errors import KymographError
from kymograph._pictures.canvas import LabFigure, dot, panel_grid, stroke, styled
from kymograph._pictures.claim_figures import GREY, MOST_PANELS, is_geometric
from kymograph._pictures.scales import LARGEST, spans_decades
from kymograph._pictures.styles import COLOURS, literal
from kymograph._runs.declaration import Declaration
from kymograph._runs.store import Store
from kymograph._runs.stored_run import StoredRun
from kymograph._runs.tuned import SUFFIX, Tuned

PARTS = {
    "tuning": {
        "attribute": "draw_tuning",
        "about": "how tuning chose each arm's setting, a panel per arm",
        "order": 6,
        "of": "tuning",
    },
}
TUNING_COLUMNS = ("arm", "setting", "value", "seed", "objective", "number", "chosen")


@styled
def draw_tuning(store: Store, declaration: Declaration, rules: Mapping[str, Tuned]) -> LabFigure:
    """Draws the tuning runs of every arm: a dot per seed, the mean at every value, and a ring around the chosen value.

    A cross marks a value with a run that failed or diverged, which cannot be chosen.
    """
    arms = [arm for arm in store.arms if arm in rules]
    if not arms:
        raise KymographError(f"no arm of {declaration.name} is tuned in these runs")
    shown = arms[:MOST_PANELS]
    figure, grid = panel_grid(len(shown), (3.4, 2.6), 4 if len(shown) > 4 else 3, least=1.8)
    for axes, arm in zip(grid, shown, strict=True):
        runs = [run for run in store if run.arm == arm and run.seed in rules[arm].tuning_seeds]
        _tuning_panel(
            figure, axes, choose(arm, rules[arm], [run.spec for run in runs], {run.id: run for run in runs}), runs
        )
        axes.set_ylabel(literal(declaration.headlines.get(rules[arm].by, rules[arm].by)))
    left_out = f" ({len(shown)} of {len(arms)} arms)" if len(shown) < len(arms) else ""
    of = declaration.name.removesuffix(SUFFIX)
    figure.entitle(f"Tuning of {of}, on separate seeds (ring: chosen, cross: a run failed or diverged){left_out}")
    return figure


def _tuning_panel(figure: LabFigure, axes: Axes, choice: Choice, runs: list[StoredRun]) -> None:
    """Draws one arm's tuning runs, their means, and a ring around the chosen value."""
    rule = choice.tuned
    order = sorted(range(len(rule.grid)), key=lambda index: rule.grid[index]) if rule.numeric else range(len(rule.grid))
    positions = {index: float(rule.grid[index]) if rule.numeric else float(rank) for rank, index in enumerate(order)}
    if rule.numeric and is_geometric(rule.grid):
        axes.set_xscale("log")
    for index in order:
        for run in (run for run in runs if run.config.get(rule.setting) == rule.grid[index]):
            number = run.summary.get(rule.by)
            value = float(number) if isinstance(number, int | float) and abs(number) <= LARGEST else np.nan
            axes.plot([positions[index]], [value], "o", color=GREY, markersize=1.5 * dot(), markeredgewidth=0)
            figure.note(TUNING_COLUMNS, [(choice.arm, rule.setting, rule.grid[index], run.seed, rule.by, value, "")])
        chosen = choice.usable and rule.grid[index] == choice.value
        figure.note(
            TUNING_COLUMNS, [(choice.arm, rule.setting, rule.grid[index], "mean", rule.by, choice.means[index], chosen)]
        )
    means = [np.nan if choice.means[index] is None else float(choice.means[index] or 0.0) for index in order]
    axes.plot([positions[index] for index in order], means, color=COLOURS[0], linewidth=stroke(), marker="o",
              markersize=dot())  # fmt: skip
    numbers = [run.summary.get(rule.by) for run in runs]
    if spans_decades(np.array([number for number in numbers if isinstance(number, int | float)], dtype=np.float64)):
        axes.set_yscale("log")
    if choice.usable:
        best = list(rule.grid).index(choice.value)
        axes.plot([positions[best]], [choice.means[best] or 0.0], "o", color="none", markeredgecolor=COLOURS[1],
                  markeredgewidth=stroke(), markersize=4 * dot())  # fmt: skip
    for index in order:
        if choice.means[index] is None:
            axes.plot([positions[index]], [0.95], "x", color="black", markersize=2 * dot(),
                      transform=axes.get_xaxis_transform())  # fmt: skip
    if not choice.usable:
        axes.set_yticks([])
    axes.set_xticks([positions[index] for index in order], [literal(str(rule.grid[index])) for index in order])
    axes.minorticks_off()
    axes.set_xlabel(literal(rule.setting))
    edge = rule.edge(choice.value) if choice.usable else ""
    said = literal(f"{rule.setting} {choice.value}") if choice.usable else "none can be chosen"
    axes.set_title(f"{literal(choice.arm)} (n = {len(rule.tuning_seeds)})\n{said}" + (f", the {edge}" if edge else ""))
