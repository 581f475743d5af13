"""The figures of `clipping`: the script's five rows by two columns, and the spike analysis it announced."""

from __future__ import annotations

import numpy as np

from kymograph.errors import KymographError
from kymograph.figures.arm_looks import COLOURS
from kymograph.figures.layout import legends, legends_above_data
from kymograph.figures.looks import current_look
from kymograph.figures.seed_curves import Bin, seed_curves
from kymograph.figures.style import LabFigure, dot, label_panel, sheet, stroke, styled
from kymograph.figures.sweeps import sweep_curves
from kymograph.runs.store import Store
from kymograph.runs.stored import StoredRun
from kymograph.statistics.intervals import mean_interval
from kymograph.studies.clipping import IMBALANCES

_NAMES = {"no_clip": "without clipping", "clip": "with clipping"}
_ORDER = ("extreme", "moderate", "learnable/extreme", "learnable/moderate")


def _pairs(store: Store) -> dict[str, tuple[str, str]]:
    """Returns the settings that have both an unclipped and a clipped arm, with those arms."""
    arms = store.finished.arms
    pairs = {}
    for arm in arms:
        setting, _, kind = arm.rpartition("/")
        if kind == "no_clip" and f"{setting}/clip" in arms:
            pairs[setting] = (arm, f"{setting}/clip")
    return dict(sorted(pairs.items(), key=lambda pair: (_ORDER.index(pair[0]) if pair[0] in _ORDER else 99, pair[0])))


def _title(store: Store, setting: str, arm: str) -> str:
    runs = store.select(arms=[arm]).finished
    config = runs.runs[0].config
    return f"{setting}: {config['n_rare']:,} of {config['n_samples']:,} samples rare (n = {len(runs.seeds)} seeds)"


@styled
def overview(store: Store) -> LabFigure:
    """Draws weight norm, its changes, gradient norm, effective dimension and rare accuracy, a column per setting."""
    store = store.select("clipping")
    pairs = _pairs(store)
    if not pairs:
        raise KymographError(
            "this figure needs an arm SETTING/no_clip and its SETTING/clip; run `kymograph run clipping`"
        )
    rows: tuple[tuple[str, str, Bin, bool], ...] = (
        ("weight_norm", "weight norm ||w||", "mean", False),
        ("weight_norm_change", "|change of ||w||\N{NO-BREAK SPACE}| per step\n(largest in each bin)", "max", True),
        ("grad_norm", "gradient norm ||g|| before clipping\n(largest in each bin)", "max", True),
        ("effective_dim", "effective dimension\nof the embedding", "mean", False),
        ("accuracy", "accuracy on the rare class", "mean", False),
    )
    arrays = {
        name: store.select(arms=[arm for pair in pairs.values() for arm in pair]).series(name) for name, *_ in rows
    }
    figure, grid = _overview_grid(len(rows), len(pairs))
    for column, (setting, arms) in enumerate(pairs.items()):
        for row, (name, label, how, log) in enumerate(rows):
            axes = grid[row, column]
            array = arrays[name].sel(site="class_1") if name == "accuracy" else arrays[name]
            x = np.array(array.labels["step"])
            for arm, colour in zip(arms, COLOURS, strict=False):
                values = array.sel(arm=arm).values
                curve = _NAMES[arm.rpartition("/")[2]]
                seed_curves(
                    figure,
                    axes,
                    f"{setting}: {name}",
                    curve,
                    x,
                    values,
                    array.labels["seed"],
                    colour,
                    log,
                    how,
                )
            if name == "grad_norm":
                limit = {run.config["max_norm"] for run in store.select(arms=[arms[1]]).finished}
                for value in sorted(limit):
                    axes.axhline(
                        value, color="black", linestyle="--", linewidth=stroke(0.625), label=f"threshold {value:g}"
                    )
            if name == "accuracy":
                axes.set_ylim(-0.05, 1.05)
            if log:
                axes.set_yscale("log")
            head, side = _title(store, setting, arms[0]), label
            if figure.look.landscape:
                head, side = label, head.split(" (")[0]
            cell = axes.get_subplotspec()
            label_panel(
                axes,
                head if cell.is_first_row() else "",
                "training step" if cell.is_last_row() else "",
                side if cell.is_first_col() else "",
            )
    if figure.look.fixed:
        legends(figure, grid[2], inside=False)
    else:
        legends_above_data(figure, [*grid[0], *grid[2]])
    figure.entitle(
        "Gradient clipping under class imbalance: mean and 95 % interval over seeds, thin lines single seeds"
    )
    return figure


def _overview_grid(quantities: int, settings: int) -> tuple[LabFigure, np.ndarray]:
    """Returns a figure and its panels (quantity, setting); on a landscape page the quantities stand side by side."""
    look = current_look()
    most = min(settings, 4) if look.landscape else look.columns(settings, least=1.5)
    if most < settings:
        raise KymographError(f"{look.name} has room for {most} settings, not {settings}; choose some with --arms")
    if look.landscape:
        figure = sheet((5.2, 5.8), settings, quantities)
        return figure, figure.subplots(settings, quantities, squeeze=False, sharex="row").T
    figure = sheet((5.2, 2.6), quantities, settings)
    return figure, figure.subplots(quantities, settings, squeeze=False, sharex="col")


@styled
def spikes(store: Store) -> LabFigure:
    """Draws what rare and common steps do to gradient, clipping, learning rate and movement, one dot per seed."""
    store = store.select("clipping").finished
    arms = [arm for arm in store.arms if not np.isnan(store.select(arms=[arm]).summary("rare_grad_norm").values).all()]
    if not arms:
        raise KymographError("no run has a step with a rare sample; run `kymograph run clipping`")
    store = store.select(arms=arms)
    panels = (
        ("gradient norm before clipping (median)", ("rare_grad_norm", "common_grad_norm"), True),
        ("fraction of steps clipped", ("rare_clip_fraction", "common_clip_fraction"), False),
        (
            "effective learning rate\n(movement / gradient, median)",
            ("rare_effective_lr", "common_effective_lr"),
            False,
        ),
        ("rare steps' share of ...", ("rare_movement_share", "rare_step_share"), False),
    )
    columns = 2 if current_look().captioned else 4  # four labels do not fit side by side on a page
    figure = sheet((3.25, 0.32 * len(arms)), len(panels) // columns, columns, frame=(0.0, 1.6))
    grid = figure.subplots(len(panels) // columns, columns, sharey=True, squeeze=False)
    for axes, (label, keys, log) in zip(grid.flat, panels, strict=True):
        for offset, (key, colour) in enumerate(zip(keys, (COLOURS[1], COLOURS[0]), strict=True)):
            values = store.summary(key).values  # (arm, seed)
            n = int((~np.isnan(values)).sum(axis=1).max())
            name = {"rare_movement_share": "all movement", "rare_step_share": "all steps"}.get(
                key, f"{key.split('_')[0]} steps"
            )
            y = np.arange(len(arms)) + (offset - 0.5) * 0.3
            axes.plot(values, np.repeat(y[:, None], values.shape[1], 1), "o", color=colour, markersize=dot(), alpha=0.4)
            mean, low, high = mean_interval(values.T, log)
            if values.shape[1] > 1:
                axes.hlines(y, low, high, color=colour, linewidth=stroke(1.25))
            axes.plot(mean, y, "|", color=colour, markersize=10 / 3 * dot(), label=f"{name} (n = {n})")
            for arm, row in zip(arms, values.tolist(), strict=True):
                figure.note(
                    ("panel", "arm", "seed", "value"),
                    [(key, arm, s, v) for s, v in zip(store.seeds, row, strict=True)],
                )
        if log:
            axes.set_xscale("log")
        axes.set_xlabel(label)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(arms)), arms)
    grid[0, 0].invert_yaxis()
    return figure


@styled
def sweep(store: Store) -> LabFigure:
    """Draws the jitter of the weights and the share of clipped steps against threshold, imbalance and batch size."""
    runs = store.select("clipping").finished.runs

    def setting(run: StoredRun) -> str:
        return run.arm.split("/")[0]

    thresholds = [run for run in runs if setting(run) in IMBALANCES and run.config["clip"] == "norm" and _alone(run)]
    percents = [run for run in runs if setting(run) == "imbalance"]
    batches = [run for run in runs if setting(run) in IMBALANCES and "batch" in run.arm]
    sizes = {(setting(run), run.config["clip"]) for run in batches}
    batches += [run for run in runs if _alone(run) and (setting(run), run.config["clip"]) in sizes
                and run.arm.count("/") == 1]  # fmt: skip
    if not (percents or batches or len({run.config["max_norm"] for run in thresholds}) > 1):
        raise KymographError("this figure needs the sweeps; run `kymograph run clipping --arms '*'`")
    if current_look().captioned:  # a page has room for two such panels side by side
        figure = sheet((13 / 3, 2.2), rows=3, columns=2)
        grid = figure.subplots(3, 2).T
    else:
        figure = sheet((13 / 3, 3.5), rows=2, columns=3)
        grid = figure.subplots(2, 3)
    columns = (
        ("threshold", thresholds, lambda run: run.config["max_norm"], setting),
        ("rare samples, %", percents, lambda run: 100 * run.config["n_rare"] / run.config["n_samples"], _clip_name),
        ("samples a step", batches, lambda run: run.config["batch_size"],
         lambda run: f"{setting(run)}, {_clip_name(run)}"),
    )  # fmt: skip
    rows = (("weight_norm_roughness", "jitter of ||w||", True), ("clip_fraction", "fraction of steps clipped", False))
    for column, (name, chosen, x, curve) in enumerate(columns):
        for row, (key, label, log) in enumerate(rows):
            axes = grid[row, column]
            sweep_curves(figure, axes, f"{label}, by {name}", chosen, key, x, curve, log)
            axes.set_xlabel(name)
            axes.set_ylabel(label)
    legends_above_data(figure, grid.flat)
    return figure


def _alone(run: StoredRun) -> bool:
    """Says whether a run of a default imbalance varies the threshold at most."""
    return run.config["batch_size"] == 1 and run.config["clip"] in ("none", "norm")


def _clip_name(run: StoredRun) -> str:
    return "without clipping" if run.config["clip"] == "none" else "with clipping"
