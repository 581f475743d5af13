"""Accuracy of every rule on every network, and alignment over training."""

from __future__ import annotations

import numpy as np

from kymograph import KymographError, RunSeries, Store
from kymograph._runs.summaries import headline_number
from kymograph.figures import LabFigure, arm_styles, dot, legends, name_bands, panel_grid, seed_curves, stroke, styled
from kymograph.studies import StudyFigure
from kymograph_studies.rule_family import RuleFamily
from kymograph_studies.rule_family.arms import HEAD_ONLY, NETWORKS, RULES

ALIGNED = ("mlp/fa", "mlp/dfa", "conv/fa", "conv/dfa")
COLUMNS = ("network", "rule", "seed", "test accuracy")


def _finished(store: Store) -> Store:
    runs = store.select("rule-family").finished
    if not runs.runs:
        raise KymographError("there is no finished run of rule-family; run `kymograph reproduce --study rule-family`")
    return runs


@styled
def accuracies(store: Store) -> LabFigure:
    """Draws test accuracy by rule, a panel per network: seeds, their mean with its interval, head only as a line."""
    runs = _finished(store)
    networks = [network for network in NETWORKS if any(arm.startswith(f"{network}/") for arm in runs.arms)]
    figure, grid = panel_grid(len(networks), (4.4, 3.4), 3, least=2.4)
    styles = arm_styles(RuleFamily().declaration())
    for axes, network in zip(grid, networks, strict=True):
        rules = [rule for rule in RULES if f"{network}/{rule}" in runs.arms]
        labels = []
        for position, rule in enumerate(rules):
            arm_runs = runs.select(arms=[f"{network}/{rule}"])
            number = headline_number([run.summary.get("test_accuracy") for run in arm_runs], bounds=(0.0, 1.0))
            finite = [value for value in number.values if value is not None]
            colour = styles[f"{network}/{rule}"].hex
            lost = f" ({number.missing} diverged)" if number.missing else ""
            labels.append(RULES[rule].label + lost)
            axes.plot([position] * len(finite), finite, "o", color="#8C8C8C", markersize=dot(), markeredgewidth=0)
            axes.errorbar([position], [number.mean], [[number.mean - number.low], [number.high - number.mean]], fmt="o",
                          color=colour, markersize=1.5 * dot(), elinewidth=stroke(), capsize=2)  # fmt: skip
            values = zip((run.seed for run in arm_runs), number.values, strict=True)
            figure.note(COLUMNS, [(network, rule, seed, value) for seed, value in values])
            if rule == HEAD_ONLY:
                axes.axhline(number.mean, color=colour, linewidth=0.5 * stroke(), linestyle="--")
        axes.set_xticks(range(len(rules)), labels, rotation=60, ha="right")
        axes.set_title(f"{NETWORKS[network].label} (n = {len({run.seed for run in runs})})")
        axes.set_ylabel("test accuracy")
    figure.entitle("Test accuracy of every rule at its own rate (bars: 95 % intervals of the mean; dashed: head only)")
    return figure


@styled
def alignments(store: Store) -> LabFigure:
    """Draws the mean alignment of FA and DFA over training on the MLP and on convolution, next to fresh feedback."""
    runs = _finished(store)
    arms = [arm for arm in ALIGNED if arm in runs.arms]
    if not arms:
        raise KymographError(f"none of {', '.join(ALIGNED)} has a finished run; run `kymograph run rule-family`")
    networks = list(dict.fromkeys(arm.split("/")[0] for arm in arms))
    figure, grid = panel_grid(len(networks), (4.4, 3.2), 2, least=2.4)
    styles = arm_styles(RuleFamily().declaration())
    for axes, network in zip(grid, networks, strict=True):
        for arm in (arm for arm in arms if arm.startswith(f"{network}/")):
            arm_runs = [run for run in runs.select(arms=[arm]) if "mean_alignment" in run.series]
            seeds = tuple(run.seed for run in arm_runs)
            steps = arm_runs[0].series["mean_alignment"].step
            values = np.array([_on(run.series["mean_alignment"], steps) for run in arm_runs])
            rule = RULES[arm.split("/")[1]]
            colour = styles[arm].hex
            seed_curves(figure, axes, network, rule.label, steps + 1, values, seeds, colour, bounds=(-1.0, 1.0))
            null = headline_number([run.summary.get("alignment_null") for run in arm_runs])
            axes.axhline(null.mean, color=colour, linewidth=0.5 * stroke(), linestyle="--",
                         label=f"{rule.label}, fresh feedback at the end")  # fmt: skip
        axes.set_xscale("log")
        axes.set_title(NETWORKS[network].label)
        axes.set_xlabel("training step + 1")
        axes.set_ylabel("cosine of update and gradient")
    name_bands(grid)
    legends(figure, grid)
    figure.entitle("Alignment of FA's and DFA's updates with the gradient")
    return figure


def _on(series: RunSeries, steps: np.ndarray) -> np.ndarray:
    """Returns a series at ``steps``, with NaN after the end of a diverged run."""
    values = dict(zip(series.step.tolist(), series.value.tolist(), strict=True))
    return np.array([values.get(step, np.nan) for step in steps.tolist()], dtype=np.float64)


FIGURES = {
    "rule-family-accuracy": StudyFigure(accuracies, "test accuracy of every rule, a panel per network"),
    "rule-family-alignment": StudyFigure(
        alignments, "alignment of FA and DFA over training, with that of fresh feedback"
    ),
}
"""The study's figures by name."""
