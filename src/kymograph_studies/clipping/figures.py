"""The figures of `clipping`: the script's five rows by two columns, and the spike analysis it announced."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kymograph import KymographError, Store, StoredRun
from kymograph._pictures.curves import BINS, sweep_curves
from kymograph._pictures.series import Bin
from kymograph._pictures.styles import current_style, literal, mathtext
from kymograph._runs.declaration import bounds_of
from kymograph._statistics.intervals import mean_interval
from kymograph.figures import (
    COLOURS,
    ArmStyle,
    LabFigure,
    dot,
    label_panel,
    legends,
    name_bands,
    seed_curves,
    set_log_y,
    sheet,
    stroke,
    styled,
)
from kymograph.studies import StudyFigure
from kymograph_studies.clipping import IMBALANCES, RATIOS, Clipping

SPIKY = 10
"""The points of a curve of bin maxima: each covers half an epoch, and so, at 99:1, a rare sample in every seed."""
WITHOUT, WITH = (ArmStyle(name, colour, 0) for name, colour in (("without clipping", 2), ("with clipping", 3)))


@dataclass(frozen=True)
class _Row:
    """One quantity of the overview."""

    series: str
    label: str
    bin_by: Bin = "mean"
    log: bool = False
    bounds: tuple[float, float] | None = None

    @property
    def spiky(self) -> bool:
        """Whether bin maxima are shown, without single seeds, which are all spikes."""
        return self.bin_by == "max"


ROWS = (
    _Row("weight_norm", "weight norm ‖w‖"),
    _Row("weight_norm_change", "|Δ‖w‖| per step\n(maximum in bin)", "max", True),
    _Row("grad_norm", "‖g‖ before clipping\n(maximum in bin)", "max", True),
    _Row("effective_dim", "effective dimension\nof the embedding"),
    _Row("accuracy", "accuracy on\nthe rare class", bounds=(0.0, 1.0)),
)


def _pairs(store: Store) -> dict[str, tuple[str, str]]:
    """Returns the settings with both an unclipped and a clipped arm, with those arms, in the study's order."""
    arms, declared = store.finished.arms, [arm.name for arm in Clipping().arms()]
    pairs = {}
    for arm in sorted(arms, key=lambda arm: (declared.index(arm) if arm in declared else len(declared), arm)):
        setting, _, kind = arm.rpartition("/")
        if kind == "no_clip" and f"{setting}/clip" in arms:
            pairs[setting] = (arm, f"{setting}/clip")
    return pairs


def _title(store: Store, arm: str) -> str:
    """Returns a description of an arm's training data."""
    runs = store.select(arms=[arm]).finished
    config = runs.runs[0].config
    data = Clipping().declaration().label(arm).rpartition(", ")[0]
    rare = f"{config['n_rare']:,} of {config['n_samples']:,} samples rare"
    return f"{data[:1].upper()}{data[1:]}: {rare} (n = {len(runs.seeds)})"


@styled
def overview(store: Store) -> LabFigure:
    """Draws weight norm, its changes, gradient norm, effective dimension and rare accuracy, a column per setting."""
    store = store.select("clipping")
    pairs = _pairs(store)
    if not pairs:
        raise KymographError(
            "this figure needs an arm SETTING/no_clip and its SETTING/clip; run `kymograph run clipping`"
        )
    chosen = store.select(arms=[arm for pair in pairs.values() for arm in pair])
    arrays = {row.series: chosen.series(row.series) for row in ROWS}
    figure, grid = _overview_grid(len(ROWS), len(pairs))
    for column, (setting, arms) in enumerate(pairs.items()):
        title = _title(store, arms[0])
        for row_index, row in enumerate(ROWS):
            axes = grid[row_index, column]
            array = arrays[row.series]
            array = array.sel(site="class_1") if "site" in array.labels else array
            for arm, style in zip(arms, (WITHOUT, WITH), strict=True):
                seed_curves(figure, axes, f"{setting}: {row.series}", style.label, np.array(array.labels["step"]),
                            array.sel(arm=arm).values, array.labels["seed"], style.hex, row.log, row.bin_by,
                            bins=SPIKY if row.spiky else BINS, each_seed=not row.spiky, bounds=row.bounds)  # fmt: skip
            if row.series == "grad_norm":
                for value in sorted({run.config["max_norm"] for run in store.select(arms=[arms[1]]).finished}):
                    axes.axhline(value, color="black", linestyle="--", linewidth=stroke(0.625),
                                 label=f"threshold {value:g}")  # fmt: skip
            if row.bounds is not None:
                axes.set_ylim(row.bounds[0] - 0.05, row.bounds[1] + 0.05)
            if row.log:
                set_log_y(axes)
            head, side = title, row.label
            if figure.style.landscape:
                head, side = row.label, head.split(":")[0]
            cell = axes.get_subplotspec()
            label_panel(
                axes,
                head if cell.is_first_row() else "",
                "training step" if cell.is_last_row() else "",
                side if cell.is_first_col() else "",
            )
    name_bands(grid.flat)
    legends(figure, grid.flat)
    figure.entitle("Gradient clipping under class imbalance (thick lines: means over seeds; thin lines: single seeds)")
    return figure


def _overview_grid(quantities: int, settings: int) -> tuple[LabFigure, np.ndarray]:
    """Returns a figure and its panels (quantity, setting); on a landscape page the quantities are side by side."""
    page = current_style()
    most = min(settings, 4) if page.landscape else page.columns(settings, least=1.5)
    if most < settings:
        raise KymographError(f"{page.name} fits {most} settings, not {settings}; choose some with --arms")
    if page.landscape:
        figure = sheet((5.2, 5.8), settings, quantities)
        return figure, figure.subplots(settings, quantities, squeeze=False, sharex="row").T
    figure = sheet((5.2, 2.6), quantities, settings)
    return figure, figure.subplots(quantities, settings, squeeze=False, sharex="col")


@styled
def spikes(store: Store) -> LabFigure:
    """Draws gradient, clipping, learning rate and movement at rare and at common steps, one dot per seed."""
    labels = Clipping().declaration().labels
    store = store.select("clipping").finished
    arms = [arm for arm in store.arms if not np.isnan(store.select(arms=[arm]).summary("rare_grad_norm").values).all()]
    if not arms:
        raise KymographError("no run has a step with a rare sample; run `kymograph run clipping`")
    store = store.select(arms=arms)
    panels = (
        ("‖g‖ before clipping (median)", ("rare_grad_norm", "common_grad_norm"), True),
        ("fraction of steps clipped", ("rare_clip_fraction", "common_clip_fraction"), False),
        ("effective learning rate\n(movement / gradient, median)", ("rare_effective_lr", "common_effective_lr"), False),
        ("rare steps' share of ...", ("rare_movement_share", "rare_step_share"), False),
    )
    shares = {"rare_movement_share": "all movement", "rare_step_share": "all steps"}
    columns = 2 if current_style().captioned else 4  # four labels do not fit side by side on a page
    figure = sheet((3.25, 0.32 * len(arms)), len(panels) // columns, columns, frame=(0.0, 1.6))
    grid = figure.subplots(len(panels) // columns, columns, sharey=True, squeeze=False)
    for axes, (label, keys, log) in zip(grid.flat, panels, strict=True):
        for offset, (key, colour) in enumerate(zip(keys, (COLOURS[1], COLOURS[0]), strict=True)):
            values = store.summary(key).values  # (arm, seed)
            n = int((~np.isnan(values)).sum(axis=1).max())
            name = shares.get(key, f"{key.split('_')[0]} steps")
            y = np.arange(len(arms)) + (offset - 0.5) * 0.3
            axes.plot(values, np.repeat(y[:, None], values.shape[1], 1), "o", color=colour, markersize=dot(), alpha=0.4)
            mean, low, high = mean_interval(values.T, log, bounds=bounds_of(key, values))
            if values.shape[1] > 1:
                axes.hlines(y, low, high, color=colour, linewidth=stroke(1.25))
            axes.plot(mean, y, "|", color=colour, markersize=10 / 3 * dot(), label=f"{literal(name)} (n = {n})")
            for arm, row in zip(arms, values.tolist(), strict=True):
                noted = [(key, arm, seed, value) for seed, value in zip(store.seeds, row, strict=True)]
                figure.note(("panel", "arm", "seed", "value"), noted)
        if log:
            axes.set_xscale("log")
        axes.set_xlabel(mathtext(label))
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0))
    for axes in grid[:, 0]:
        axes.set_yticks(range(len(arms)), [literal(labels.get(arm, arm)) for arm in arms])
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
    if current_style().captioned:  # a page has room for two such panels side by side
        figure = sheet((13 / 3, 2.2), rows=3, columns=2)
        grid = figure.subplots(3, 2).T
    else:
        figure = sheet((13 / 3, 3.5), rows=2, columns=3)
        grid = figure.subplots(2, 3)
    columns = (
        ("threshold", thresholds, lambda run: run.config["max_norm"], lambda run: _swept(setting(run), "norm")),
        ("rare samples, %", percents, lambda run: 100 * run.config["n_rare"] / run.config["n_samples"],
         lambda run: _swept("", run.config["clip"])),
        ("samples per step", batches, lambda run: run.config["batch_size"],
         lambda run: _swept(setting(run), run.config["clip"])),
    )  # fmt: skip
    rows = (("weight_norm_roughness", "jitter of ‖w‖", True), ("clip_fraction", "fraction of steps clipped", False))
    for column, (name, chosen, x, curve) in enumerate(columns):
        for row, (key, label, log) in enumerate(rows):
            axes = grid[row, column]
            sweep_curves(figure, axes, f"{label}, by {name}", chosen, key, x, curve, log)
            label_panel(axes, f"{label[:1].upper()}{label[1:]}, by {name}", name, label)
    name_bands(grid.flat)
    legends(figure, grid.flat)
    return figure


def _alone(run: StoredRun) -> bool:
    """Returns whether a run of a default imbalance varies at most the threshold."""
    return run.config["batch_size"] == 1 and run.config["clip"] in ("none", "norm")


def _swept(setting: str, clip: str) -> ArmStyle:
    """Returns the style of a curve over a sweep: colour by clipping, dashes by imbalance."""
    style = WITHOUT if clip == "none" else WITH
    label = f"{RATIOS[setting]}, {style.label}" if setting else style.label
    return ArmStyle(label, style.colour, {"extreme": 0, "moderate": 1}.get(setting, 2))


FIGURES = {
    "clipping": StudyFigure(
        overview, "weight norm, its changes, gradient norm, effective dimension and rare accuracy, by setting"
    ),
    "clipping-spikes": StudyFigure(
        spikes, "gradient, clipping, effective learning rate and movement at rare and at common steps"
    ),
    "clipping-sweep": StudyFigure(
        sweep, "jitter of the weights and share of clipped steps, by threshold, imbalance and batch size"
    ),
}
"""The study's figures by name."""
