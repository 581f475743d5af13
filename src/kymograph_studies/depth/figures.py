"""The figures of `depth`: the script's four, the gain per layer, and the kymographs of stream and gradient."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kymograph import KymographError, LabelledArray, Store
from kymograph._pictures.curves import sweep_curves
from kymograph.figures import (
    LabFigure,
    arm_styles,
    kymograph,
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
from kymograph_studies.depth import SWEEPS, SWEPT, WIRINGS, Depth
from kymograph_studies.labels import STREAM

LABELS = {wiring.name: wiring.label for wiring in WIRINGS}


def _of_default_shape(store: Store) -> Store:
    """Returns the runs that can share axes: the wirings at the study's own depth and width, without the sweeps."""
    chosen = store.select("depth").finished
    arms = [arm for arm in chosen.arms if _wiring(arm) == arm] or list(chosen.arms)
    if not arms:
        raise KymographError("there is no finished run of depth; run `kymograph run depth`")
    order = list(LABELS)
    return chosen.select(arms=sorted(arms, key=lambda arm: (order.index(arm) if arm in order else len(order), arm)))


def _wiring(arm: str) -> str:
    """Returns the wiring of an arm, without the depth or width that a sweep gives it."""
    setting, _, rest = arm.partition("/")
    return rest.partition("/")[2] if setting in SWEEPS else arm


def _task(store: Store) -> str:
    return " and ".join(sorted({str(run.config["task"]) for run in store}))


@styled
def loss(store: Store) -> LabFigure:
    """Draws the training loss of every arm, on a log scale."""
    store = _of_default_shape(store)
    array = store.series("loss")
    figure = sheet((7, 4.5))
    axes = figure.subplots()
    _curves(figure, axes, array, np.array(array.labels["step"]), "loss", log=True)
    set_log_y(axes)
    label_panel(axes, f"Training loss, {_task(store)} task", "training step", "mean squared error")
    name_bands([axes])
    legends(figure, [axes])
    return figure


@styled
def gradient(store: Store) -> LabFigure:
    """Draws the gradient norm before each ReLU, after training."""
    return _profile(store, "grad_norm", "gradient norm before the ReLU, ‖∂L/∂z_ℓ‖", log=True)


@styled
def mean(store: Store) -> LabFigure:
    """Draws the mean before each ReLU, after training."""
    return _profile(store, "pre_mean", "mean before the ReLU", log=False)


@styled
def std(store: Store) -> LabFigure:
    """Draws the standard deviation before each ReLU, after training."""
    return _profile(store, "pre_std", "standard deviation before the ReLU", log=True)


@styled
def _profile(store: Store, name: str, label: str, log: bool) -> LabFigure:
    store = _of_default_shape(store)
    array = store.series(name)
    array = array.sel(step=array.labels["step"][-1])
    figure = sheet((7, 4.5))
    axes = figure.subplots()
    _curves(figure, axes, array, np.arange(1, len(array.labels["site"]) + 1), name, log, "o")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if log:
        set_log_y(axes)
    else:
        axes.set_yscale("symlog", linthresh=1.0)
        label += "\n(linear between -1 and 1, logarithmic beyond)"
    label_panel(axes, f"After training, {_task(store)} task, one fixed batch for all arms", "layer", label)
    name_bands([axes])
    legends(figure, [axes])
    return figure


@styled
def gain(store: Store) -> LabFigure:
    """Draws the gain per layer, forward and backward, over training: 1 is level, and above 1 norms grow."""
    store = _of_default_shape(store)
    figure = sheet((5.5, 4.2), columns=2)
    grid = figure.subplots(1, 2)
    for axes, name, head, label in zip(
        grid,
        ("forward_gain", "backward_gain"),
        ("Forward gain", "Backward gain"),
        ("forward gain per layer of ‖h_ℓ‖", "backward gain per layer of ‖∂L/∂h_ℓ‖"),
        strict=True,
    ):
        array = store.series(name).sel(site="estimate")
        _curves(figure, axes, array, np.array(array.labels["step"]), name, log=True)
        axes.axhline(1.0, color="black", linewidth=stroke(0.5), linestyle="--")
        label_panel(axes, f"{head}, {_task(store)} task", "training step", label)
    name_bands(grid)
    legends(figure, grid)
    return figure


@styled
def stream_kymograph(store: Store, *, family: str | None = None, all_sites: bool = False) -> LabFigure:
    """Draws the norm of the stream over depth and time, one panel per arm."""
    store = _of_default_shape(store)
    title = f"Stream norm over training, {_task(store)} task"
    return kymograph(store.series("stream_norm"), title, "median over samples of ‖h_ℓ‖", sites=STREAM, labels=LABELS,
                     family=family, all_sites=all_sites)  # fmt: skip


@styled
def gradient_kymograph(store: Store, *, family: str | None = None, all_sites: bool = False) -> LabFigure:
    """Draws the gradient on the stream over depth and time, one panel per arm."""
    store = _of_default_shape(store)
    title = f"Gradient on the stream over training, {_task(store)} task"
    return kymograph(store.series("stream_grad"), title, "‖∂L/∂h_ℓ‖, mean loss", sites=STREAM, labels=LABELS,
                     family=family, all_sites=all_sites)  # fmt: skip


def _curves(
    figure: LabFigure,
    axes: Axes,
    array: LabelledArray,
    x: np.ndarray,
    panel: str,
    log: bool,
    marker: str | None = None,
) -> None:
    styles = arm_styles(Depth().declaration(), array.labels["arm"])
    for arm in array.labels["arm"]:
        values, style = array.sel(arm=arm).values, styles[arm]
        seed_curves(figure, axes, panel, style.label, x, values, array.labels["seed"], style.hex, log, marker=marker,
                    dash=style.dashes)  # fmt: skip


@styled
def sweep(store: Store) -> LabFigure:
    """Draws final loss and gradient gain against depth, and final loss against width, from the sweeps' arms."""
    runs = store.select("depth").finished.runs
    if all(_wiring(run.arm) == run.arm for run in runs):
        raise KymographError("this figure needs the sweeps; run `kymograph run depth --arms 'layers/*' 'width/*'`")
    by_depth = [run for run in runs if not run.arm.startswith("width/") and _wiring(run.arm) in SWEPT]
    by_width = [run for run in runs if not run.arm.startswith("layers/") and _wiring(run.arm) in SWEPT]
    styles = arm_styles(Depth().declaration())
    figure = sheet((13 / 3, 4), columns=3)
    grid = figure.subplots(1, 3)
    panels = (
        ("final loss", by_depth, "final_loss", "layers", "mean squared error"),
        ("backward gain before training", by_depth, "initial_backward_gain", "layers", "gain per layer of ‖∂L/∂h_ℓ‖"),
        ("final loss", by_width, "final_loss", "width", "mean squared error"),
    )
    for axes, (title, chosen, key, field, label) in zip(grid, panels, strict=True):
        sweep_curves(
            figure,
            axes,
            f"{title}, by {field}",
            chosen,
            key,
            lambda run, field=field: float(run.config[field]),  # type: ignore[misc]
            lambda run: styles[_wiring(run.arm)],
            log=key == "final_loss",
        )
        label_panel(axes, f"{title[:1].upper()}{title[1:]}, by {field}", field, label)
    name_bands(grid)
    legends(figure, grid)
    return figure


FIGURES = {
    "depth-loss": StudyFigure(loss, "training loss of every arm"),
    "depth-gradient": StudyFigure(gradient, "gradient norm before each ReLU, after training"),
    "depth-mean": StudyFigure(mean, "mean before each ReLU, after training"),
    "depth-std": StudyFigure(std, "standard deviation before each ReLU, after training"),
    "depth-gain": StudyFigure(gain, "gain per layer, forward and backward, over training"),
    "depth-sweep": StudyFigure(sweep, "final loss and gradient gain by depth, final loss by width"),
    "depth-kymograph": StudyFigure(stream_kymograph, "norm of the stream over depth and time, a panel per arm"),
    "depth-kymograph-gradient": StudyFigure(
        gradient_kymograph, "gradient on the stream over depth and time, a panel per arm"
    ),
}
"""The study's figures by name."""
